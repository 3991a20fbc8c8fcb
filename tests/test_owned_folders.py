import subprocess
from pathlib import Path

import pytest

from support.owned_folders import owned_folder


def test_folders_of_killed_processes_are_removed_and_those_of_others_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with subprocess.Popen(["true"]) as dead:
        dead.wait()
    with subprocess.Popen(["sleep", "600"]) as living:
        names = ["mine-abc", f"mine-pid{living.pid}-abc", f"mine-pid{dead.pid}-abc", f"other-pid{dead.pid}-abc"]
        for name in names:
            (tmp_path / name / "inside").mkdir(parents=True)
        made = owned_folder("mine")
        living.kill()
    names.remove(f"mine-pid{dead.pid}-abc")
    assert {path.name for path in tmp_path.iterdir()} == {*names, made.name}
