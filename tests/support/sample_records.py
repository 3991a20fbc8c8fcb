"""Small valid records."""

from dataclasses import replace

from icefloe.checkpoint.batch_spec import BatchSpec, Identity
from icefloe.checkpoint.records import BatchOutcome, CommitRecord, Cursor, Ending, OffsetRecord, PipelineRecord, Writer
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


def an_offset(batch_number=0, *, outcome=BatchOutcome.DELIVERED, snapshot=None, **changes):
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
    spec = replace(spec, **of_spec)
    before = None if batch_number == 0 else Cursor(batch_number=batch_number - 1, snapshot_id=before)
    follows = changes.pop("follows", before)
    ending = Ending.after(
        follows, outcome, snapshot_id=spec.up_to_snapshot_id, snapshot=snapshot, has_pipeline="pipeline" in changes
    )
    record = OffsetRecord(
        checkpoint_id="5e0c4f0a",
        opened_by=Writer(),
        follows=follows,
        spec=spec,
        ending=ending,
        warnings=("the log no longer reaches",),
        result_configuration={},
        opened_at="2026-11-21T07:00:00.000+00:00",
        icefloe_version="0.1.0",
    )
    return replace(record, **changes)


def a_commit(batch_number=0, *, outcome=BatchOutcome.DELIVERED, **changes):
    """The end of the batch that `an_offset` opens; changes of the cursor are given beside those of the record."""
    cursor = Cursor(batch_number=batch_number, snapshot_id=changes.pop("up_to_snapshot_id", BIG + batch_number))
    part = changes.pop("load_part", None)
    of_cursor = {name: changes.pop(name) for name in list(changes) if name in Cursor.__dataclass_fields__}
    of_cursor["load_part"] = None if part is None or part.is_last else part
    record = CommitRecord(
        checkpoint_id="5e0c4f0a",
        ending=Ending(outcome=outcome, cursor=replace(cursor, **of_cursor)),
        committed_by=Writer(),
        after_snapshot_id=None if batch_number == 0 else BIG + batch_number - 1,
        load_part=part,
        route="shuffle",
        steps=1,
        counts={"insert": 1, "delete": 2, "update_before": 3, "update_after": 3},
        committed_at="2026-11-21T07:05:00.000+00:00",
    )
    return replace(record, **changes)
