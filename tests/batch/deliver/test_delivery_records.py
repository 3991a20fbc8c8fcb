"""Records of a delivery: the first one of each kind counts."""

from pathlib import Path

from icefloe.batch.deliver.deliver_part import DeliveryRecords
from icefloe.storage.location import open_store


def test_all_tries_of_a_delivery_have_the_facts_of_the_first(tmp_path: Path) -> None:
    store = open_store(tmp_path.as_uri())
    assert DeliveryRecords(store).begin({"index": "people-1"}) == {"index": "people-1"}
    assert DeliveryRecords(store).begin({"index": "people-2"}) == {"index": "people-1"}
