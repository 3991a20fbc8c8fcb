"""Rows whose author knew the public key of the row hash, but not the one of the batch."""

import json
from random import SystemRandom

import pyarrow as pa
import pytest

from changes.row_hash.forged_rows import FORGED, PLAIN
from icefloe.api import read_changes
from icefloe.batch.verify.verify_batches import verify_batches
from support.pipelines.workshop import Workshop
from support.tables.events import SCHEMA

UPDATE = {"UPDATE_BEFORE": [PLAIN], "UPDATE_AFTER": [FORGED]}


def table(word: str) -> pa.Table:
    return pa.table([[1, 2], [1.0, 2.0], [word, "other"]], schema=SCHEMA)


def words(changes: pa.Table) -> dict[str, list[str]]:
    kinds = changes["_change_type"].to_pylist()
    return {
        kind: [word for of, word in zip(kinds, changes["word"].to_pylist(), strict=True) if of == kind]
        for kind in kinds
    }


@pytest.fixture
def updated(workshop: Workshop) -> Workshop:
    """A row is updated to one that has the same hash under the public key; nothing is compared in place."""
    workshop.set(identifier_columns=["id"], filter="id < 10").table.append(table(PLAIN))
    workshop.deliver()
    workshop.replace(table(FORGED))
    return workshop


def test_an_update_between_rows_that_collide_under_the_public_key_is_delivered(updated: Workshop) -> None:
    updated.deliver()
    assert words(updated.changes(1)) == UPDATE
    assert verify_batches(updated.session()).is_equal


def test_read_changes_finds_the_update(updated: Workshop) -> None:
    found = read_changes(
        updated.table, after_snapshot_id=updated.snapshot_ids()[0], identifier_columns=["id"], filter="id < 10"
    ).read_all()
    assert words(found) == UPDATE


def test_each_batch_has_a_key_of_its_own_which_its_manifest_shows(
    updated: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("secrets.randbits", SystemRandom().getrandbits)
    updated.deliver()
    updated.append([3])
    updated.deliver()
    paths = [updated.folder / f"changes/batch={number}/_manifest.json" for number in range(3)]
    assert len({json.loads(path.read_text())["batch"]["hash_key"] for path in paths}) == 3


def test_verify_is_a_second_witness_with_a_key_of_its_own(updated: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as known:
        known.setattr("secrets.randbits", lambda _bits: 0)
        batch = updated.open()
    batch.deliver()
    assert updated.changes(1).num_rows == 0, "the audit closes: to its sums the two rows are one"
    found = verify_batches(updated.session())
    assert not found.is_equal
    assert found.differing_rows == 2
