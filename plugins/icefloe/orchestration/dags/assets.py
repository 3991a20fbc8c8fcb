"""The assets of pipelines: the asset that starts a pipeline, and the asset that starts consumers of its changes."""

from typing import Final

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.definitions.asset import AssetNameRef

_SCHEME: Final = "icefloe://"


def changes_asset(name: str) -> Asset:
    """The asset that gains an event whenever a batch with changes is committed: ``Asset("icefloe://<name>")``."""
    return Asset(f"{_SCHEME}{name}")


def changes_alias(name: str) -> AssetAlias:
    """The outlet of commit. It is an alias, because an asset would start consumers after empty batches too."""
    return AssetAlias(f"{_SCHEME}{name}")


def scheduling_asset(name: str) -> Asset | AssetNameRef:
    """The asset that ``schedule: {asset: NAME}`` names: another pipeline's asset, or any asset declared elsewhere."""
    return Asset(name) if name.startswith(_SCHEME) else Asset.ref(name=name)
