import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from icefloe.engines.spark.application import build_package_zip


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "source" / "floe"
    (folder / "inner").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "inner" / "__init__.py").write_text("WORD = 'ice'")
    (folder / "__pycache__").mkdir()
    (folder / "__pycache__" / "x.pyc").write_bytes(b"machine")
    return folder


def test_equal_sources_give_equal_names_and_bytes_at_any_time(package: Path, tmp_path: Path) -> None:
    first = build_package_zip(tmp_path, package=package)
    before = first.read_bytes()
    for path in package.rglob("*.py"):
        path.touch()
    assert build_package_zip(tmp_path, package=package) == first
    assert first.read_bytes() == before


def test_another_content_gives_another_name(package: Path, tmp_path: Path) -> None:
    first = build_package_zip(tmp_path, package=package)
    (package / "inner" / "__init__.py").write_text("WORD = 'floe'")
    assert build_package_zip(tmp_path, package=package) != first


def test_caches_stay_out(package: Path, tmp_path: Path) -> None:
    with ZipFile(build_package_zip(tmp_path, package=package)) as archive:
        assert archive.namelist() == ["floe/__init__.py", "floe/inner/__init__.py"]


def test_the_library_imports_from_its_zip_alone(tmp_path: Path) -> None:
    path = build_package_zip(tmp_path)
    found = subprocess.run(
        [sys.executable, "-c", "import icefloe.errors; print(icefloe.errors.__file__)"],
        env={"PYTHONPATH": str(path)}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert found.stdout.startswith(str(path))
