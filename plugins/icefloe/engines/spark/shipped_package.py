"""The library as Spark's processes import it: one file for ``--py-files``, or from where it is on this machine."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_PACKAGE: Final = Path(__file__).parents[2]


def link_package(folder: Path, *, package: Path = _PACKAGE) -> Path:
    """Makes a folder for the search path of processes on this machine, with nothing in it but a link to a package.

    Modules in a zip are compiled by each process that imports them: the driver and every worker of each application.
    The folder in which the package lies is no place to search: other files there would hide modules of the same name.

    Args:
        folder: gets the new folder; it must exist and outlive the processes.
        package: the package's folder.
    """
    path = folder / "packages"
    path.mkdir()
    (path / package.name).symlink_to(package)
    return path


def build_package_zip(folder: Path, *, package: Path = _PACKAGE) -> Path:
    """Zips a package into ``folder``, named by the hash of its contents.

    Equal sources give an equal name and equal bytes, whatever the machine, the time or the order of the directory.

    Args:
        folder: gets the zip; it must exist.
        package: the package's folder; its name becomes the top level of the zip.
    """
    sources = [(f"{package.name}/{name}", data) for name, data in _sources(package)]
    path = folder / f"{package.name}-{_content_hash(sources)}.zip"
    with ZipFile(path, "w", compression=ZIP_DEFLATED) as archive:
        for name, data in sources:
            archive.writestr(_entry(name), data)
    return path


def _sources(package: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(package.rglob("*"), key=lambda path: path.relative_to(package).as_posix()):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path.relative_to(package).as_posix(), path.read_bytes()


def _content_hash(sources: list[tuple[str, bytes]]) -> str:
    digest = hashlib.sha256()
    for name, data in sources:
        # Bytes alone would not say where one file ends and the next begins.
        digest.update(f"{len(name)}:{name}:{len(data)}:".encode())
        digest.update(data)
    return digest.hexdigest()[:16]


def _entry(name: str) -> ZipInfo:
    entry = ZipInfo(name, date_time=_EPOCH)
    entry.compress_type = ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    return entry
