import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import ListType, LongType, NestedField, StringType, StructType

from icefloe.batch.open.column_policies import choose_identity, kept_identity
from icefloe.checkpoint.batch_spec import Identity
from icefloe.errors import TerminalError
from icefloe.iceberg.schemas.table_schema import TableSchema

FIELDS = (
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "place", StructType(NestedField(3, "zone", LongType(), required=True)), required=True),
    NestedField(4, "word", StringType()),
    NestedField(5, "words", ListType(6, StringType())),
)


def schema(*identifier_field_ids: int) -> TableSchema:
    return TableSchema.of(Schema(*FIELDS, identifier_field_ids=list(identifier_field_ids)))


def test_the_pipelines_columns_come_before_the_tables() -> None:
    assert choose_identity(["word"], schema(1), table="db.t", has_row_ids=False) == Identity(
        policy="pipeline", columns=("word",), field_ids=(4,)
    )
    assert choose_identity(None, schema(3, 1), table="db.t", has_row_ids=False) == Identity(
        policy="table", columns=("id", "place.zone"), field_ids=(1, 3)
    )
    assert choose_identity(None, schema(), table="db.t", has_row_ids=True) == Identity(policy="row_id")
    assert choose_identity(None, schema(), table="db.t", has_row_ids=False) == Identity(policy="none")


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ("di", "identifier column 'di' is not in the table; did you mean 'id'"),
        ("place", "identifier column 'place' of type .* cannot be used"),
        ("words", "identifier column 'words' of type .* cannot be used"),
    ],
)
def test_a_column_that_cannot_identify_rows_is_one_sentence(column: str, sentence: str) -> None:
    with pytest.raises(TerminalError, match=f"^identifier_columns does not fit table db.t: {sentence}"):
        choose_identity([column], schema(), table="db.t", has_row_ids=False)


def test_a_pipeline_keeps_the_identity_that_it_began_with() -> None:
    recorded = Identity(policy="table", columns=("id",))
    assert kept_identity(recorded, schema(1), pipeline="p", table="db.t") == (recorded, ())
    kept, [warning] = kept_identity(recorded, schema(3), pipeline="p", table="db.t")
    assert kept == recorded
    assert warning == "the table's identifier fields are place.zone now; pipeline p goes on with id, as it began"
    nothing = Identity(policy="none")
    kept, [warning] = kept_identity(nothing, schema(1), pipeline="p", table="db.t")
    assert kept == nothing
    assert warning == "the table's identifier fields are id now; pipeline p goes on with none, as it began"
    kept, [warning] = kept_identity(Identity(policy="row_id"), schema(1), pipeline="p", table="db.t")
    assert kept == Identity(policy="row_id")
    assert warning == "the table's identifier fields are id now; pipeline p goes on with _row_id, as it began"
    given = Identity(policy="pipeline", columns=("word",))
    assert kept_identity(given, schema(1), pipeline="p", table="db.t") == (given, ())


def test_identifier_fields_of_the_table_are_followed_when_they_are_renamed() -> None:
    recorded = choose_identity(None, schema(1), table="db.t", has_row_ids=False)
    renamed = TableSchema.of(Schema(NestedField(1, "number", LongType(), required=True), identifier_field_ids=[1]))
    kept, warnings = kept_identity(recorded, renamed, pipeline="p", table="db.t")
    assert (kept.columns, warnings) == (("number",), ())
    assert recorded.named_as(kept) == kept
    assert recorded.named_as(choose_identity(None, schema(3), table="db.t", has_row_ids=False)) == recorded


ADDED_AGAIN = TableSchema.of(Schema(NestedField(9, "id", LongType(), required=True), identifier_field_ids=[9]))
SWAPPED = TableSchema.of(Schema(NestedField(4, "id", LongType()), NestedField(1, "word", LongType())))


@pytest.mark.parametrize("names", [None, ["id"]])
def test_the_identity_never_moves_to_a_column_that_was_added_under_the_name(names: list[str] | None) -> None:
    recorded = choose_identity(names, schema(1), table="db.t", has_row_ids=False)
    said = "by id since its first batch, but column 'id' of then was dropped, and 'id' is another column; .*reset p"
    with pytest.raises(TerminalError, match=said):
        kept_identity(recorded, ADDED_AGAIN, pipeline="p", table="db.t")


def test_columns_of_the_pipeline_that_swap_their_names_stop_it() -> None:
    recorded = choose_identity(["id"], schema(), table="db.t", has_row_ids=False)
    with pytest.raises(TerminalError, match="column 'id' of then is named 'word' now, and 'id' is another column"):
        kept_identity(recorded, SWAPPED, pipeline="p", table="db.t")
