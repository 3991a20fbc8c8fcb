"""The memory of this process."""

from pathlib import Path

__all__ = ["anonymous_kib", "peak_kib"]


def peak_kib() -> int:
    """The most that was resident since the program began, KiB.

    Not ``ru_maxrss``: Linux hands that on to a program that a process starts, so a child of a large test process would
    seem as large as that.
    """
    return int(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])


def anonymous_kib() -> int:
    """Memory that is in no file, so that the system cannot take it back, KiB."""
    return int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])
