"""The schema of a batch whose snapshot expired is chosen by the names that its changes have."""

from collections.abc import Sequence

import pyarrow as pa
import pytest

from icefloe.batch.verify.written_columns import ColumnNames

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "at": pa.struct({"x": pa.int64(), "y": pa.int64()}),
        "tags": pa.map_(pa.string(), pa.int64()),
        "stops": pa.list_(pa.struct({"n": pa.int64()})),
    }
)
TOP = ["id", "at", "tags", "stops"]


@pytest.mark.parametrize(
    ("names", "fits", "is_exact"),
    [
        ([], True, True),
        (TOP, True, True),
        ([*TOP, "at.x", "at.y", "tags.any", "stops.n"], True, True),
        ([*TOP, "at.x"], True, False),
        (["id", "at"], True, False),
        ([*TOP, "at.z"], False, False),
        ([*TOP, "word"], False, False),
        ([*TOP, "stops.m"], False, False),
    ],
)
def test_names_fit_a_schema_that_has_them(names: Sequence[str], fits: bool, is_exact: bool) -> None:
    columns = ColumnNames.of(SCHEMA)
    assert (columns.have(names), fits and not columns.have_others(names)) == (fits, is_exact)
