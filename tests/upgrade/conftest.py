import fcntl
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pipelines.workshop import Workshop


def unpacked(name: str, folder: Path) -> Iterator[Path]:
    """The folder of a release as it was left, while a test runs: its documents name it, and their digests cover it."""
    with tarfile.open(Path(__file__).parent / f"release-{name}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    link = Path(f"/tmp/icefloe-{name}")
    # The path is one for all processes of the machine.
    with link.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        link.unlink(missing_ok=True)
        link.symlink_to(folder, target_is_directory=True)
        yield link
        link.unlink()


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Path]:
    """Release 70b12fe, with its table, pipelines and documents."""
    yield from unpacked("70b12fe", tmp_path / "release")


@pytest.fixture
def delivering_release(tmp_path: Path) -> Iterator[Path]:
    """Commit c4798f0, whose pipelines stage their batches and deliver them."""
    yield from unpacked("c4798f0", tmp_path / "release")


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop.create(tmp_path)
