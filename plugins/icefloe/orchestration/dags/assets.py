"""The assets of pipelines: what starts one, and what consumers of its changes are scheduled by."""

from typing import Final

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.definitions.asset import AssetNameRef

__all__ = ["changes_alias", "changes_asset", "scheduling_asset"]

_SCHEME: Final = "icefloe://"


def changes_asset(name: str) -> Asset:
    """The asset that gains an event whenever a batch with changes is committed: ``Asset("icefloe://<name>")``."""
    return Asset(f"{_SCHEME}{name}")


def changes_alias(name: str) -> AssetAlias:
    """The outlet of commit. An alias, because an outlet that is an asset would tell consumers of empty batches too."""
    return AssetAlias(f"{_SCHEME}{name}")


def scheduling_asset(name: str) -> Asset | AssetNameRef:
    """What ``schedule: {asset: NAME}`` names: another pipeline's asset, or any asset declared elsewhere."""
    return Asset(name) if name.startswith(_SCHEME) else Asset.ref(name=name)
