import fcntl
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.pipelines.workshop import Workshop

RELEASE = Path(__file__).parent / "release-70b12fe.tar.xz"
FOLDER = Path("/tmp/icefloe-70b12fe")
"""The path in these documents, whose digests cover it."""


@pytest.fixture
def release(tmp_path: Path) -> Iterator[Path]:
    """The folder of that release, with its table, pipelines and documents, as it was left."""
    with tarfile.open(RELEASE) as archive:
        archive.extractall(tmp_path / "release", filter="data")
    # The path is one for all processes of the machine.
    with FOLDER.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        FOLDER.unlink(missing_ok=True)
        FOLDER.symlink_to(tmp_path / "release", target_is_directory=True)
        yield FOLDER
        FOLDER.unlink()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop.create(tmp_path)
