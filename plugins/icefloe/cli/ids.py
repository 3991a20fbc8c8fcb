"""Ids of snapshots and batches, for people and for programs."""

__all__ = ["batch_text", "id_json", "id_text"]


def batch_text(batch_number: int, backfill_id: str | None) -> str:
    """A batch of a pipeline or of a backfill.

    >>> batch_text(0, "start-7-0a1b2c3d")
    '0 of backfill start-7-0a1b2c3d'
    """
    return str(batch_number) if backfill_id is None else f"{batch_number} of backfill {backfill_id}"


def id_json(snapshot_id: int | None) -> str | None:
    """A snapshot id as text, because programs round numbers above 2^53.

    >>> id_json(4_611_686_018_427_387_905)
    '4611686018427387905'
    """
    return None if snapshot_id is None else str(snapshot_id)


def id_text(snapshot_id: int | None) -> str:
    """A snapshot id for a table; a dash if there is none."""
    return "-" if snapshot_id is None else str(snapshot_id)
