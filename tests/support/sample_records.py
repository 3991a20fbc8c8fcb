"""Small valid records."""

from dataclasses import replace

from icefloe.checkpoint.batch_spec import BatchSpec
from icefloe.checkpoint.cursor import Cursor
from icefloe.checkpoint.identity import Identity
from icefloe.checkpoint.records import CommitRecord, OffsetRecord, PipelineRecord, Writer
from icefloe.iceberg.step import Step, StepKind

__all__ = ["BIG", "a_commit", "a_step", "an_offset", "the_pipeline"]

BIG = 2**62 + 1
"""A snapshot id that a JSON number would not survive."""


def a_step(change_ordinal=0, snapshot_id=BIG):
    return Step(
        change_ordinal=change_ordinal,
        kind=StepKind.COMMIT,
        start_snapshot_id=None,
        end_snapshot_id=snapshot_id,
        snapshot_ids=(snapshot_id - 1, snapshot_id),
        commit_snapshot_id=snapshot_id,
        commit_timestamp_us=1_700_000_000_000_000,
    )


def the_pipeline(**changes):
    record = PipelineRecord(
        checkpoint_id="5e0c4f0a",
        name="flights",
        table="nyc.flights",
        table_uuid="6f1c",
        table_location="file:///lake/flights",
        identity=Identity(policy="pipeline", columns=("flight_id",)),
        result_configuration={"table": "nyc.flights", "filter": None, "sink": {"type": "files"}},
        icefloe_version="0.1.0",
    )
    return replace(record, **changes)


def an_offset(batch_number=0, **changes):
    """Batch N goes from snapshot BIG + N - 1 to BIG + N; changes of the spec are given beside those of the record."""
    before = None if batch_number == 0 else BIG + batch_number - 1
    spec = BatchSpec(
        after_snapshot_id=before,
        up_to_snapshot_id=BIG + batch_number,
        steps=(a_step(),),
        skipped_replace_snapshots=1,
        identity=Identity(policy="none"),
        partitions=64,
        cores=2,
        hash_key=2**127 + 7,
    )
    of_spec = {name: changes.pop(name) for name in list(changes) if name in BatchSpec.__dataclass_fields__}
    record = OffsetRecord(
        batch_number=max(0, batch_number),
        checkpoint_id="5e0c4f0a",
        opened_by=Writer(),
        follows=None if batch_number == 0 else Cursor(batch_number=batch_number - 1, snapshot_id=before),
        spec=replace(spec, **of_spec),
        warnings=("the log no longer reaches",),
        result_configuration={},
        opened_at="2026-11-21T07:00:00.000+00:00",
        icefloe_version="0.1.0",
    )
    return replace(record, **changes)


def a_commit(batch_number=0, **changes):
    record = CommitRecord(
        batch_number=batch_number,
        checkpoint_id="5e0c4f0a",
        committed_by=Writer(),
        after_snapshot_id=None if batch_number == 0 else BIG + batch_number - 1,
        up_to_snapshot_id=BIG + batch_number,
        route="shuffle",
        steps=1,
        counts={"insert": 1, "delete": 2, "update_before": 3, "update_after": 3},
        committed_at="2026-11-21T07:05:00.000+00:00",
    )
    return replace(record, **changes)
