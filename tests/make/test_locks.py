from pathlib import Path

import pytest

from make.locks import LOCKS, ROOT, faults, main, pins

HASH = "--hash=sha256:" + 64 * "a"


def lock(folder: Path, text: str, asked: str = "numpy\n") -> list[str]:
    (folder / "requirements.in").write_text(asked)
    (folder / "requirements.txt").write_text(text)
    return list(faults(folder / "requirements.in", folder / "requirements.txt"))


def test_the_repositorys_locks_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    assert main() == 0
    assert capsys.readouterr().err == ""


def test_every_lock_is_checked() -> None:
    written = {path.relative_to(ROOT).as_posix() for path in ROOT.glob("*.in")}
    written |= {path.relative_to(ROOT).as_posix() for path in ROOT.glob("[a-z]*/**/*.in")}
    assert written == LOCKS.keys()


def test_each_file_that_may_be_installed_has_a_hash() -> None:
    for name in LOCKS.values():
        for package, version, hashes in pins(ROOT / name):
            assert version, package
            assert hashes, package


@pytest.mark.parametrize(
    ("text", "asked", "sentence"),
    [
        ("numpy==2.4.6\n", "numpy", "'numpy==2.4.6' is not one version of one package with sha256 hashes"),
        ("numpy==2.4.6 \\\n    # via x\n", "numpy", "is not one version"),
        (f"numpy>=2 {HASH}\n", "numpy", "is not one version"),
        (f"numpy==2.4.6 \\\n    {HASH[:-1]}\n", "numpy", "is not one version"),
        (f"numpy==2.4.6 \\\n    {HASH}\n", "numpy\nlz4", "has no lz4, which requirements.in asks for"),
        (f"numpy==2.4.6 \\\n    {HASH}\n", "numpy==2.5.0", "has numpy 2.4.6, but requirements.in asks for 2.5.0"),
    ],
)
def test_a_lock_that_lacks_something_is_refused(tmp_path: Path, text: str, asked: str, sentence: str) -> None:
    assert [sentence in fault for fault in lock(tmp_path, text, asked)].count(True) == 1


def test_versions_for_some_pythons_and_names_with_extras_are_taken(tmp_path: Path) -> None:
    text = (
        f"numpy==2.4.6 ; python_full_version < '3.12' \\\n    {HASH} \\\n    {HASH}\n    # via pandas\n"
        f"numpy==2.5.5 ; python_full_version >= '3.12' \\\n    {HASH}\npyiceberg==0.12.0 \\\n    {HASH}\n"
    )
    assert lock(tmp_path, text, "-c other.txt\n# why\nnumpy\npyiceberg[sql-sqlite]==0.12.0\n") == []
    assert [(name, version, len(hashes)) for name, version, hashes in pins(tmp_path / "requirements.txt")] == [
        ("numpy", "2.4.6", 2), ("numpy", "2.5.5", 1), ("pyiceberg", "0.12.0", 1),
    ]  # fmt: skip
