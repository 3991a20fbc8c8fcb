"""The ``status.json`` of a pipeline as JSON: any key may be missing, for other releases write it too."""

from typing import TypedDict


class TroubleDocument(TypedDict, total=False):
    """Why a task failed."""

    phase: str
    sentence: str


class DeliveryDocument(TypedDict):
    """The last delivery to the pipeline's sink."""

    url: str
    visible_at: str
    lag_seconds: float | None


class StatusDocument(TypedDict, total=False):
    """The keys that the page reads; see `PipelineStatus`."""

    updated_at: str
    cursor_snapshot_id: str | None
    cursor_timestamp: str | None
    head_snapshot_id: str | None
    head_timestamp: str | None
    lag_snapshots: int | None
    lag_rows: int | None
    waiting_since: str | None
    open_batch: int | None
    open_since: str | None
    open_run: str | None
    owner: str | None
    last_batch: int | None
    last_committed_at: str | None
    trouble: TroubleDocument | None
    next_expiry: object
    pins: object
    recent: list[dict[str, object]]
    last_delivery: DeliveryDocument | None
