"""Checks that each lock was made of its .in file and names the hash of every file that may be installed.

python -m make.locks    prints what is wrong, and ends with 1 if anything is
"""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

__all__ = ["LOCKS", "Pin", "faults", "main", "pins"]

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final[Mapping[str, str]] = {
    "make/uv.in": "make/uv.txt",
    "make/java.in": "make/java.txt",
    "requirements.in": "requirements.txt",
    "requirements-dev.in": "requirements-dev.txt",
    "demo/requirements.in": "demo/requirements.txt",
    "stack/requirements.in": "stack/requirements.txt",
    "tests/docs/dbt.in": "tests/docs/dbt.txt",
}
"""What is written by hand, and the lock that `make lock` makes of it."""

Pin = tuple[str, str, tuple[str, ...]]
"""The name, the version and the hashes of one package."""

_PIN: Final = re.compile(r"([a-z0-9-]+)==([^ ;]+)(?: ; [^\\]+?)?((?: --hash=sha256:[0-9a-f]{64})+)")
_NAME: Final = re.compile(r"[\[<>=~!; ]")


def main() -> int:
    """Print what is wrong with the locks of this repository."""
    found = [fault for source, lock in LOCKS.items() for fault in faults(ROOT / source, ROOT / lock)]
    for fault in found:
        sys.stderr.write(f"{fault}: `make lock` writes the locks\n")
    return 1 if found else 0


def faults(source: Path, lock: Path) -> Iterator[str]:
    """One sentence for each thing that is wrong with a lock."""
    pinned: dict[str, set[str]] = {}
    for entry in _entries(lock.read_text("utf-8")):
        found = _PIN.fullmatch(entry)
        if found is None:
            yield f"{lock.name}: {entry.split(' --hash')[0]!r} is not one version of one package with sha256 hashes"
        else:
            pinned.setdefault(found[1], set()).add(found[2])
    for line in source.read_text("utf-8").splitlines():
        if not line or line.startswith(("#", "-")):
            continue
        name, version = _NAME.split(line, maxsplit=1)[0].lower().replace("_", "-"), line.partition("==")[2]
        if name not in pinned:
            yield f"{lock.name} has no {name}, which {source.name} asks for"
        elif version and pinned[name] != {version}:
            yield f"{lock.name} has {name} {' and '.join(sorted(pinned[name]))}, but {source.name} asks for {version}"


def pins(lock: Path) -> list[Pin]:
    """Every package of a lock; one that is pinned for some Pythons only may come twice."""
    matches = filter(None, (_PIN.fullmatch(entry) for entry in _entries(lock.read_text("utf-8"))))
    return [(found[1], found[2], tuple(re.findall(r"sha256:(\w+)", found[3]))) for found in matches]


def _entries(text: str) -> Iterator[str]:
    """The requirements of a file, each on one line."""
    joined = re.sub(r" *\\\n *", " ", text)
    return (line.strip() for line in joined.splitlines() if line.strip() and not line.strip().startswith("#"))


if __name__ == "__main__":
    sys.exit(main())
