from pathlib import Path

from icefloe.storage.local_folders import local_folders


def test_every_disk_that_spark_names_and_that_can_be_written_is_used_in_its_order(tmp_path: Path) -> None:
    one, other = tmp_path / "b", tmp_path / "a"
    one.mkdir()
    other.mkdir()
    (tmp_path / "file").write_text("")
    named = f"{one},{tmp_path}/gone,,{tmp_path}/file,{other}"
    assert local_folders({"SPARK_LOCAL_DIRS": named}) == (one, other)


def test_yarn_names_them_by_another_variable(tmp_path: Path) -> None:
    assert local_folders({"LOCAL_DIRS": str(tmp_path), "SPARK_LOCAL_DIRS": "/gone"}) == (tmp_path,)


def test_without_spark_there_are_none() -> None:
    assert local_folders({}) == ()
    assert local_folders({"SPARK_LOCAL_DIRS": ""}) == ()
