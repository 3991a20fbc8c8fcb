import pytest

from icefloe.checkpoint.record_store import backfill_prefix
from icefloe.errors import UsageError


@pytest.mark.parametrize("backfill_id", ["", "..", ".x", "a/b", "a b", "a#1", "ü", "a\n"])
def test_an_id_that_could_be_no_folder_is_refused(backfill_id):
    with pytest.raises(UsageError, match="cannot be the id of a backfill") as caught:
        backfill_prefix(backfill_id)
    assert caught.value.backfill_id == backfill_id


def test_an_id_of_snapshots_and_a_digest_is_a_folder():
    assert backfill_prefix("start-4611686018427387905-0a1b2c3d") == "backfills/start-4611686018427387905-0a1b2c3d"
