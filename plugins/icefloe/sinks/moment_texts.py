"""Dates and timestamps as text."""

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

_TEXT: Final = pa.large_string()


def moment_texts(moments: pa.Array) -> pa.Array:
    """ISO 8601 as large_string, with all digits of the unit, and with ``Z`` if the type has a zone; null for null.

    >>> moment_texts(pa.array([0, 106751991], pa.date32())).to_pylist()
    ['1970-01-01', '294247-01-10']
    >>> moment_texts(pa.array([1_700_000_000_000_001], pa.timestamp("us", "UTC"))).to_pylist()
    ['2023-11-14T22:13:20.000001Z']
    """
    kind = moments.type
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        # The text of an instant must not depend on the zone that a column is shown in.
        texts = moment_texts(moments.view(pa.timestamp(kind.unit)))
        return pc.binary_join_element_wise(texts, pa.scalar("Z", _TEXT), pa.scalar("", _TEXT))
    texts = pc.replace_substring(moments.cast(_TEXT), " ", "T")
    # Arrow has no text for years beyond 32767, which Spark writes: it gives "<value out of range: 106751991>".
    is_beyond = pc.fill_null(pc.starts_with(texts, "<"), False)
    if not pc.any(is_beyond).as_py():
        return texts
    beyond = np.datetime_as_string(moments.filter(is_beyond).to_numpy(zero_copy_only=False))
    return pc.replace_with_mask(texts, is_beyond, pa.array(beyond.tolist(), _TEXT))
