from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import Asset
from airflow.sdk.definitions.asset import AssetNameRef
from airflow.sdk.exceptions import ParamValidationError

from icefloe.batch.open.next_range import RequestedRange
from icefloe.errors import UsageError
from icefloe.orchestration.dags.batch_tasks import changes_asset, scheduling_asset
from icefloe.orchestration.dags.dag_factory import backfill_params, backfill_range, given_keys

NINETEEN_DIGITS = "9223372036854775806"


def test_a_snapshot_id_keeps_all_its_digits() -> None:
    found = backfill_range({"after_snapshot_id": NINETEEN_DIGITS, "up_to_snapshot_id": None})
    assert found == RequestedRange(after_snapshot_id=9223372036854775806)


def test_an_id_and_a_timestamp_may_bound_different_ends() -> None:
    found = backfill_range({"after_snapshot_id": "7", "up_to_timestamp": "2013-02-01T00:00:00Z"})
    assert found == RequestedRange(after_snapshot_id=7, up_to_timestamp=datetime(2013, 2, 1, tzinfo=UTC))


@pytest.mark.parametrize(
    ("conf", "sentence"),
    [
        ({}, "needs a range"),
        ({"after_snapshot_id": "", "up_to_timestamp": None}, "needs a range"),
        ({"after_snapshot_id": "1", "after_timestamp": "2013-02-01T00:00:00Z"}, "were both given"),
        ({"up_to_snapshot_id": "1", "up_to_timestamp": "2013-02-01T00:00:00Z"}, "were both given"),
        ({"after_snapshot": "1"}, "unknown key 'after_snapshot': a backfill takes after_snapshot_id"),
        ({"after_timestamp": "2013-02-01T00:00:00"}, "has no offset"),
    ],
)
def test_a_wrong_range_is_refused(conf: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        backfill_range(conf)


def test_a_run_of_the_following_dag_takes_no_configuration() -> None:
    assert given_keys({}, instead="none") == {}
    with pytest.raises(UsageError, match="unknown key 'after_snapshot_id': start x__backfill"):
        given_keys({"after_snapshot_id": "1"}, instead="start x__backfill")


STAMP = "2013-02-01T00:00:00"


@pytest.mark.parametrize(
    ("key", "taken", "refused"),
    [
        ("after_snapshot_id", (None, "7", NINETEEN_DIGITS), (7, "7a", "-7", NINETEEN_DIGITS + "0")),
        ("up_to_timestamp", (None, f"{STAMP}Z", f"{STAMP}.000+01:00"), (STAMP, "2013-02-01", "now")),
    ],
)
def test_the_form_takes_digits_or_timestamps_with_an_offset(
    key: str, taken: tuple[object, ...], refused: tuple[object, ...]
) -> None:
    for value in taken:
        assert backfill_params()[key].resolve(value) == value
    for value in refused:
        with pytest.raises(ParamValidationError):
            backfill_params()[key].resolve(value)


def test_a_pipeline_can_be_scheduled_by_the_changes_of_another_and_by_an_asset_declared_elsewhere() -> None:
    assert scheduling_asset("icefloe://flights") == changes_asset("flights") == Asset("icefloe://flights")
    assert scheduling_asset("orders") == AssetNameRef(name="orders")
