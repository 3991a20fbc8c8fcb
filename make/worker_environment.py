"""``make env``: the archive that Spark's workers unpack, a Python with what icefloe's tasks import and nothing else.

Its packages are copied from the environment that runs this, which is the one of Spark's drivers: so both have the same
versions, whatever these are, and nothing is fetched. The library itself travels with each job.
"""
# ruff: noqa: S603 (it runs Python)

import gzip
import hashlib
import platform
import subprocess
import sys
import tarfile
import tempfile
from argparse import ArgumentParser
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from make.interpreter_copy import BoundInterpreterError, copy_interpreter, site_folder
from make.package_closure import MissingPackageError, closure, copy_packages, library_requirements, sink_clients

__all__ = ["build_archive", "content_hash", "main"]

_EPOCH: Final = 315532800
_COMPRESSION: Final = 6
_LIBRARY: Final = Path(__file__).parents[1] / "plugins"
_IMPORTS: Final = "import icefloe.engines.spark.job, icefloe.batch.map.write_part, icefloe.batch.reduce.read_range"
_ADVICE: Final = """\
{path}
{size} MB, {count} packages, Python {python}; for the pipeline file:

spark:
  conf:
    spark.archives: {path}#environment
    spark.pyspark.python: ./environment/bin/python
"""


def main(arguments: Sequence[str]) -> int:
    """Build the archive and say how a pipeline names it."""
    parser = ArgumentParser(prog="make env")
    parser.add_argument("folder", type=Path, help="folder of the archive")
    parser.add_argument("further", nargs="*", help="further packages for the workers, such as adlfs")
    given = parser.parse_args(arguments)
    try:
        path, count = build_archive(given.folder, further=given.further)
    except (BoundInterpreterError, MissingPackageError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    size = f"{path.stat().st_size / 1e6:.0f}"
    sys.stdout.write(_ADVICE.format(path=path.resolve(), size=size, count=count, python=platform.python_version()))
    return 0


def build_archive(folder: Path, *, further: Sequence[str] = (), compression: int = _COMPRESSION) -> tuple[Path, int]:
    """Builds the archive, named by what is in it; its path and the number of its packages.

    Args:
        folder: where it goes.
        further: packages beside those of the library.
        compression: from 1, the fastest, to 9.

    Raises:
        BoundInterpreterError: this Python works in its own folder only.
        MissingPackageError: a package is not installed.
    """
    folder.mkdir(parents=True, exist_ok=True)
    distributions = closure([*library_requirements(), *sink_clients(), *further])
    with tempfile.TemporaryDirectory(prefix="environment-", dir=folder) as temporary:
        environment = Path(temporary, "environment")
        program = copy_interpreter(environment)
        copy_packages(distributions, site_folder(program))
        content = content_hash(environment)
        _compile(program, environment)
        _run(program, "-c", f"import sys; sys.path.append({str(_LIBRARY)!r}); {_IMPORTS}")
        packed = Path(temporary, "packed.tar.gz")
        _pack(environment, packed, compression=compression)
        return packed.rename(folder / f"icefloe-env-{content}.tar.gz"), len(distributions)


def content_hash(folder: Path) -> str:
    """Equal for equal files, wherever the folder is and whenever they were written."""
    digest = hashlib.sha256()
    for path in _sorted(folder):
        digest.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            digest.update(hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()[:16]


def _compile(program: Path, environment: Path) -> None:
    """Once here, not again by each executor; valid whatever time the files are unpacked with."""
    # A few packages carry templates that are no Python: what cannot be compiled is compiled by nobody.
    options = ["-q", "-j0", "--invalidation-mode", "unchecked-hash", "-s", str(environment)]
    command = [str(program), "-I", "-m", "compileall", *options, str(environment)]
    subprocess.run(command, env={}, capture_output=True, check=False)


def _run(program: Path, *arguments: str) -> None:
    subprocess.run([program, "-I", "-B", *arguments], env={}, check=True)


def _pack(environment: Path, packed: Path, *, compression: int) -> None:
    """Writes the archive, without owners and times."""
    with (
        packed.open("wb") as file,
        gzip.GzipFile("", "wb", compression, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for path in _sorted(environment):
            archive.add(path, path.relative_to(environment).as_posix(), recursive=False, filter=_plain)


def _sorted(folder: Path) -> Iterator[Path]:
    return iter(sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir()))


def _plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = _EPOCH
    member.mode = 0o755 if member.mode & 0o100 else 0o644
    return member


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
