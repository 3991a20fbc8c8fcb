from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pytest

from changes.hash_values import KEY
from icefloe.batch.verify import keyed_rows
from icefloe.batch.verify.keyed_rows import KeyDifferences, KeyedRows
from icefloe.changes.row_hash.row_hashes import row_hashes


def kept(folder: Path, rows: Sequence[tuple[int, str | None]], expected_rows: int = 1) -> KeyedRows:
    """Rows of an id and a word; no word: the id has no row from here on."""
    folder.mkdir()
    made = KeyedRows(folder, rows=expected_rows, names=["id"])
    for start in range(0, len(rows), 3):
        ids, words = (pa.array(column) for column in zip(*rows[start : start + 3], strict=True))
        made.add(
            row_hashes([ids], key=KEY), row_hashes([ids, words.cast(pa.string())], key=KEY), [ids], words.is_valid()
        )
    return made


def differences(
    folder: Path, expected: Sequence[tuple[int, str]], held: Sequence[tuple[int, str | None]], *, is_log: bool = False
) -> tuple[KeyDifferences, Mapping[str, set[int]]]:
    found = KeyDifferences.between(kept(folder / "expected", expected), kept(folder / "held", held), is_log=is_log)
    named: dict[str, set[int]] = {}
    for row in found.kept.to_pylist():
        named.setdefault(row["kind"], set()).add(row["id"])
    return found, named


def test_equal_rows_do_not_differ(tmp_path: Path) -> None:
    rows = [(number, "a") for number in range(10)]
    found, named = differences(tmp_path, rows, rows[::-1])
    assert (dict(found.counts), named, found.doubled, found.ambiguous) == ({}, {}, 0, 0)


def test_keys_are_named_by_the_kind_of_difference(tmp_path: Path) -> None:
    expected = [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
    found, named = differences(tmp_path, expected, [(1, "a"), (2, "other"), (4, "d"), (9, "z"), (4, "d")])
    assert found.counts == {"missing": 1, "extra": 1, "different": 1}
    assert named == {"missing": {3}, "extra": {9}, "different": {2}}
    assert found.doubled == 1


def test_the_last_change_of_a_key_counts_in_a_log(tmp_path: Path) -> None:
    held = [(1, "old"), (1, "a"), (2, "b"), (2, None), (3, None), (3, "c"), (4, None)]
    found, named = differences(tmp_path, [(1, "a"), (2, "b"), (3, "c")], held, is_log=True)
    assert named == {"missing": {2}}
    assert found.doubled == 0


def test_any_of_several_rows_of_a_key_is_right(tmp_path: Path) -> None:
    found, named = differences(tmp_path, [(1, "a"), (1, "b"), (2, "c"), (2, "c")], [(1, "b"), (2, "c")])
    assert (named, found.ambiguous, [rows["id"].to_pylist() for rows in found.ambiguous_kept]) == ({}, 2, [[1, 2]])


def test_rows_on_disk_are_compared_slice_by_slice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "_ROWS_PER_SLICE", 10)
    expected = [(number, "a") for number in range(100)]
    held = [(number, "a" if number % 7 else "b") for number in range(1, 101)]
    left = kept(tmp_path / "left", expected, expected_rows=100)
    found = KeyDifferences.between(left, kept(tmp_path / "right", held, expected_rows=100), is_log=False)
    assert len(list((tmp_path / "left").iterdir())) == 16
    assert found.counts == {"missing": 1, "extra": 1, "different": 14}


def test_more_keys_than_are_kept_are_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyed_rows, "KEPT", 5)
    found, _ = differences(tmp_path, [(number, "a") for number in range(12)], [])
    assert (found.counts, len(found.kept), found.is_complete) == ({"missing": 12}, 5, False)
