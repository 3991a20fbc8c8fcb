from airflow.sdk import Asset
from airflow.sdk.definitions.asset import AssetNameRef

from icefloe.orchestration.dags.batch_tasks import changes_asset, scheduling_asset


def test_a_pipeline_can_be_scheduled_by_the_changes_of_another() -> None:
    assert scheduling_asset("icefloe://flights") == changes_asset("flights") == Asset("icefloe://flights")


def test_an_asset_declared_elsewhere_is_named_and_not_declared_again() -> None:
    assert scheduling_asset("orders") == AssetNameRef(name="orders")
