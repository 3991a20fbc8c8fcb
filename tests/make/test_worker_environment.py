import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, requires
from pathlib import Path

import pytest

from make.interpreter_copy import copy_interpreter, site_folder
from make.package_closure import MissingPackageError, closure, copy_packages, sink_clients
from make.worker_environment import content_hash, main


def test_a_closure_holds_what_is_needed_indirectly_and_no_extras() -> None:
    names = {found.name.lower() for found in closure(["pyiceberg"])}
    assert {"pyiceberg", "requests", "urllib3", "pydantic", "pydantic_core"} <= names | {"pydantic_core"}
    assert not {"sqlalchemy", "pyspark", "apache-airflow", "pytest"} & names
    assert any("sqlalchemy" in text.lower() for text in requires("pyiceberg") or ())
    assert "sqlalchemy" in {found.name.lower() for found in closure(["pyiceberg[sql-sqlite]"])}


def test_the_clients_of_sinks_come_along_if_they_are_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    names = {found.name.lower() for found in closure(sink_clients())}
    assert {"opensearch-py", "botocore", "confluent-kafka", "fastavro"} <= names

    def without_kafka(requirements: Iterable[str]) -> list[Distribution]:
        if "confluent" in "".join(requirements):
            raise MissingPackageError
        return []

    monkeypatch.setattr("make.package_closure.closure", without_kafka)
    assert [client.partition(">")[0] for client in sink_clients()] == ["botocore", "opensearch-py", "boto3"]


def test_a_package_that_is_not_there_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MissingPackageError, match="no-such-package is not installed next to icefloe"):
        closure(["no-such-package"])
    assert main([str(tmp_path), "no-such-package"]) == 1
    assert capsys.readouterr().err == "no-such-package is not installed next to icefloe: install it first\n"
    assert list(tmp_path.iterdir()) == []


def test_equal_files_give_an_equal_name_and_others_another(tmp_path: Path) -> None:
    for name in ("one", "two", "other"):
        copy_packages(closure(["packaging"]), tmp_path / name)
    (tmp_path / "other" / "packaging" / "more.py").write_text("")
    one, two, other = (content_hash(tmp_path / name) for name in ("one", "two", "other"))
    assert one == two != other


def test_an_installers_notes_on_its_own_folder_are_left_out(tmp_path: Path) -> None:
    # Programs begin with the path of their Python, and the list has their hashes.
    [package] = [each for each in closure(["charset-normalizer"]) if each.name.lower().startswith("charset")]
    assert any(path.parts[0] == ".." for path in package.files or ())
    copy_packages([package], tmp_path)
    assert list(tmp_path.rglob("METADATA"))
    assert not list(tmp_path.rglob("RECORD"))


def test_a_copied_interpreter_runs_where_it_is_moved_to_and_finds_its_packages_there(tmp_path: Path) -> None:
    program = copy_interpreter(tmp_path / "made")
    copy_packages(closure(["packaging"]), site_folder(program))
    moved = (tmp_path / "made").rename(tmp_path / "moved") / "bin" / "python"
    code = "import packaging, sys; print(sys.prefix, packaging.__file__, *sys.version_info[:2])"
    done = subprocess.run([moved, "-c", code], env={}, capture_output=True, text=True, check=True)
    prefix, package, major, minor = done.stdout.split()
    assert Path(prefix) == tmp_path / "moved"
    assert Path(package).is_relative_to(tmp_path / "moved")
    assert (int(major), int(minor)) == sys.version_info[:2]
