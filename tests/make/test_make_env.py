import re
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from make.make_env import main, make_env


def test_every_secret_is_new_and_only_the_owner_may_read_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    assert [main([str(path)]) for path in paths] == [0, 0]
    assert capsys.readouterr().out == "".join(f"New secrets are in {path}\n" for path in paths)
    first, second = (re.findall(r"^[A-Z0-9_]+=(.*)$", path.read_text(), re.MULTILINE) for path in paths)
    assert len(first) == 8
    assert not set(first) & set(second)
    assert all(len(secret) >= 20 for secret in first)
    assert paths[0].stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / ".env"
    path.write_text("S3_ACCESS_KEY=mine\n")
    assert not make_env(path)
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == f"{path} exists and is left unchanged\n"
    assert path.read_text() == "S3_ACCESS_KEY=mine\n"


def test_the_fernet_key_is_one(tmp_path: Path) -> None:
    make_env(tmp_path / ".env")
    [line] = [line for line in (tmp_path / ".env").read_text().splitlines() if line.startswith("AIRFLOW_FERNET_KEY=")]
    fernet = Fernet(line.split("=", 1)[1])
    assert fernet.decrypt(fernet.encrypt(b"a")) == b"a"
