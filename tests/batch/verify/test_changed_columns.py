"""`icefloe verify` of files that were delivered before a column was added, renamed, dropped or promoted."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import IntegerType, LongType, StringType

from batch.verify.verified_sinks import VerifiedSinks
from support.pipelines.workspace import icefloe
from support.tables.events import rows


def add_a_column(lab: VerifiedSinks) -> None:
    with lab.table.update_schema() as update:
        update.add_column("gate", StringType())


def rename_a_column(lab: VerifiedSinks) -> None:
    with lab.table.update_schema() as update:
        update.rename_column("word", "name")


def reuse_a_name(lab: VerifiedSinks) -> None:
    rename_a_column(lab)
    with lab.table.update_schema() as update:
        update.add_column("word", LongType())


def drop_a_column(lab: VerifiedSinks) -> None:
    with lab.table.update_schema() as update:
        update.delete_column("word")


def promote_a_column(lab: VerifiedSinks) -> None:
    with lab.table.update_schema() as update:
        update.update_column("small", LongType())


def with_small(*ids: int) -> pa.Table:
    return rows(ids).append_column("small", pa.array(ids, pa.int32()))


def change_a_column_with_rows(
    lab: VerifiedSinks, change: Callable[[VerifiedSinks], None], sink: str, **keys: Any
) -> None:
    with lab.table.update_schema() as update:
        update.add_column("small", IntegerType())
    lab.table.append(with_small(7, 8))
    lab.deliver(sink, **keys)
    change(lab)
    held = lab.table.refresh().schema().as_arrow()
    added = with_small(9).select([name for name in ("id", "value", "small") if name in held.names])
    lab.table.append(added.cast(pa.schema([held.field(name) for name in added.column_names])))
    lab.deliver(sink, **keys)


CHANGES = [add_a_column, rename_a_column, reuse_a_name, drop_a_column, promote_a_column]


@pytest.mark.slow
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("changes", ["upsert", "append_only"])
def test_files_from_before_a_change_of_columns_are_compared_by_field(
    lab: VerifiedSinks, change: Callable[[VerifiedSinks], None], changes: str
) -> None:
    lab.append(1, 2, 3)
    lab.deliver("files", changes=changes)
    change_a_column_with_rows(lab, change, "files", changes=changes)
    lab.require_equal("files", rows=6, changes=changes)
    traced = icefloe("trace", lab.pipeline(sink=lab.sink("files"), engine="local", changes=changes), "id=7", "--json")
    assert (traced.code, traced.err) == (0, "")
    assert traced.document["sink_rows"] == traced.document["table_rows"] != []


def test_files_whose_snapshot_expired_are_compared_in_the_schema_that_has_their_columns(lab: VerifiedSinks) -> None:
    lab.append(1, 2, 3)
    lab.deliver("files", changes="upsert")
    change_a_column_with_rows(lab, rename_a_column, "files", changes="upsert")
    newest = lab.head()
    old = [each.snapshot_id for each in lab.table.refresh().snapshots() if each.snapshot_id != newest]
    lab.table.maintenance.expire_snapshots().by_ids(old).commit()
    lab.require_equal("files", rows=6, changes="upsert")


@pytest.mark.parametrize("changes", ["upsert", "append_only"])
def test_files_are_compared_and_traced_by_an_identifier_field_that_was_renamed(
    lab: VerifiedSinks, changes: str
) -> None:
    with lab.table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True).set_identifier_fields("id")
    keys: dict[str, Any] = {"changes": changes, "identifier_columns": None}
    lab.table.append(rows([1, 2, 3]).cast(lab.table.refresh().schema().as_arrow()))
    lab.deliver("files", **keys)
    with lab.table.update_schema() as update:
        update.rename_column("id", "number")
    named = rows([4]).rename_columns(["number", "value", "word"])
    lab.table.append(named.cast(lab.table.refresh().schema().as_arrow()))
    lab.deliver("files", **keys)
    lab.require_equal("files", rows=4, **keys)
    pipeline = lab.pipeline(sink=lab.sink("files"), engine="local", **keys)
    traced = icefloe("trace", pipeline, "number=1", "--json")
    assert (traced.code, traced.err) == (0, "")
    assert [row["number"] for row in traced.document["table_rows"]] == [1]
