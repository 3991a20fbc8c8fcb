import numpy as np
import pyarrow as pa
import pytest

from icefloe.iceberg.deletes.equality_deletes import key_hashes


def classes_of(values: pa.Array) -> list[int]:
    """For each key the place of the first that is equal to it."""
    hashes = key_hashes(pa.record_batch([values], names=["key"]), 7)
    keys = [hashes[place] for place in range(len(hashes))]
    return [keys.index(key) for key in keys]


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_floating_point_keys_are_equal_where_java_compares_them_so(kind: pa.DataType) -> None:
    other_nan = np.frombuffer(b"\x01\x00\x00\x00\x00\x00\xf8\xff", np.float64)[0]
    values = [0.0, -0.0, float("nan"), other_nan, None, 1.5, None, 1.5]
    assert classes_of(pa.array(values, pa.float64(), from_pandas=False).cast(kind)) == [0, 1, 2, 2, 4, 5, 4, 5]


def test_a_null_struct_is_not_a_struct_of_nulls() -> None:
    kind = pa.struct([("a", pa.int32()), ("x", pa.float64())])
    values = [None, {"a": None, "x": None}, None, {"a": 1, "x": -0.0}, {"a": 1, "x": 0.0}, {"a": 1, "x": 0.0}]
    assert classes_of(pa.array(values, kind)) == [0, 1, 0, 3, 4, 4]
    assert classes_of(pa.array([*values, *values], kind).slice(5, 4)) == [0, 1, 2, 1]


def test_text_is_equal_however_it_is_encoded() -> None:
    plain = pa.array(["a", None, "b", "a"], pa.large_string())
    assert classes_of(plain) == classes_of(plain.dictionary_encode()) == [0, 1, 2, 0]
