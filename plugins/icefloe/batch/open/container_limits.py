"""The limits that a container sets to its processes: CPU time and memory, by the control groups of Linux."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

_GROUPS: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")


def cpu_limit(*, own: Path = _OWN, groups: Path = _GROUPS) -> int | None:
    """The cores whose time this process may use, rounded up; None if no control group limits them.

    Args:
        own: names the control groups of this process.
        groups: where control groups of either version are mounted.
    """
    found = [
        -(-quota // period)
        for folder in _folders("cpu", own, groups)
        for quota, period in (_quota(folder),)
        if quota is not None and quota > 0 and period
    ]
    return min(found, default=None)


def memory_limit(*, own: Path = _OWN, groups: Path = _GROUPS) -> int | None:
    """The bytes above which the kernel kills processes of this container; None if no control group limits them.

    Args:
        own: as for `cpu_limit`.
        groups: as for `cpu_limit`.
    """
    files = ("memory.max", "memory.limit_in_bytes")
    found = (_number(folder / name) for folder in _folders("memory", own, groups) for name in files)
    return min((limit for limit in found if limit is not None), default=None)


def _quota(folder: Path) -> tuple[int | None, int | None]:
    """Microseconds of CPU time, and the period in which they are granted."""
    with suppress(OSError, ValueError):
        quota, period = (folder / "cpu.max").read_text().split()
        return (None if quota == "max" else int(quota)), int(period)
    return _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")


def _number(file: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int(file.read_text())
    return None


def _folders(controller: str, own: Path, groups: Path) -> Iterator[Path]:
    """The folders of the control groups of this process and of those around them, whose limits hold as well."""
    # Lines of both versions:   0::/kubepods/pod1/main      4:cpu,cpuacct:/docker/f00
    # In a container, the path may be that of the machine, which is not mounted there. The root of what is mounted is
    # the container's own group then.
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers and controller not in controllers.split(","):
            continue
        base = groups / controller if controllers else groups
        parts = [part for part in path.split("/") if part not in ("", "..")]
        for length in range(len(parts), -1, -1):
            yield base.joinpath(*parts[:length])
