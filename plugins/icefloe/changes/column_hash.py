"""The contribution of one column to the row hash: values by type, nested ones by their parts."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from icefloe.changes.byte_hash import byte_words, is_bytes
from icefloe.changes.canonical import fixed_width_words, is_fixed_width, null_mask
from icefloe.changes.mixing import K1, Mixer, Seed, Sums, Words
from icefloe.changes.sequences import Rows, add_sequences
from icefloe.errors import TerminalError

__all__ = ["add_column"]


def add_column(array: pa.Array, seed: Seed, mixer: Mixer, sums: Sums) -> None:
    """Adds the contribution of each value to the sum at its place.

    Raises:
        TerminalError: a type that no Iceberg column has (union, interval), or a decimal of more than 38 digits.
    """
    array = _plain(array)
    if pa.types.is_dictionary(array.type):
        _add_dictionary(array, seed, mixer, sums)
    else:
        mixer.add(_words(array, seed, mixer), seed, sums)


def _plain(array: pa.Array) -> pa.Array:
    """The array without extension types, runs, and dictionaries that are longer than their array."""
    if isinstance(array, pa.ExtensionArray):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(pc.run_end_decode(array))
    if pa.types.is_dictionary(array.type) and len(array.dictionary) > len(array):
        return _plain(array.dictionary_decode())
    return array


def _words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    kind = array.type
    if is_fixed_width(kind):
        return fixed_width_words(array)
    if is_bytes(kind):
        return byte_words(array, seed, mixer)
    if pa.types.is_struct(kind):
        return _struct_words(array, seed, mixer)
    if pa.types.is_map(kind):
        return _map_words(array, seed, mixer)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_words(array, array.offsets, seed, mixer)
    if pa.types.is_fixed_size_list(kind):
        offsets = pa.array(np.arange(array.offset, array.offset + len(array) + 1) * kind.list_size)
        return _list_words(array, offsets, seed, mixer)
    if pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind):
        return _words(array.cast(pa.large_list(kind.value_field)), seed, mixer)
    if pa.types.is_null(kind):
        return Words(low=np.zeros(len(array), np.uint64), nulls=np.ones(len(array), np.bool_))
    raise TerminalError(f"values of type {kind} have no row hash; Iceberg has no such type, cast the column", type=kind)


def _add_dictionary(array: pa.Array, seed: Seed, mixer: Mixer, sums: Sums) -> None:
    """Each distinct value is hashed once; a null may stand in the indices or in the dictionary."""
    distinct = Sums.zeros(len(array.dictionary) + 1)
    add_column(array.dictionary, seed, mixer, distinct.slice(0, len(array.dictionary)))
    distinct.low[-1], distinct.high[-1] = seed.null
    indices = fixed_width_words(array.indices)
    picks = indices.low.view(np.int64)
    if indices.nulls is not None:
        picks = np.where(indices.nulls, len(array.dictionary), picks)
    sums.low[:] += distinct.low[picks]
    sums.high[:] += distinct.high[picks]


def _struct_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    parts = Sums.zeros(len(array))
    for index in range(array.type.num_fields):
        add_column(array.field(index), seed.child(index), mixer, parts)
    return Words(low=parts.low, high=parts.high, nulls=null_mask(array))


def _list_words(array: pa.Array, offsets: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    begin, bounds = _bounds(offsets)
    elements = Sums.zeros(int(bounds[-1]))
    add_column(array.values.slice(begin, len(elements.low)), seed.child(0), mixer, elements)
    sums = _sequence_sums(elements, bounds, seed.child(1), mixer, is_ordered=True)
    return Words(low=sums.low, high=sums.high, nulls=null_mask(array))


def _map_words(array: pa.Array, seed: Seed, mixer: Mixer) -> Words:
    begin, bounds = _bounds(array.offsets)
    entries = Sums.zeros(int(bounds[-1]))
    for index, part in enumerate((array.keys, array.items)):
        add_column(part.slice(begin, len(entries.low)), seed.child(index), mixer, entries)
    sums = _sequence_sums(entries, bounds, seed.child(2), mixer, is_ordered=False)
    return Words(low=sums.low, high=sums.high, nulls=null_mask(array))


def _sequence_sums(elements: Sums, bounds: NDArray[np.int64], seed: Seed, mixer: Mixer, *, is_ordered: bool) -> Sums:
    def fetch(rows: Rows, positions: NDArray[np.int64] | int) -> Words:
        places = bounds[:-1][rows] + positions
        return Words(low=elements.low[places], high=elements.high[places])

    counts = np.diff(bounds)
    lengths = counts.astype(np.uint64)
    sums = Sums(low=lengths * np.uint64(K1), high=lengths)
    add_sequences(counts, fetch, seed=seed, mixer=mixer, sums=sums, is_ordered=is_ordered)
    return sums


def _bounds(offsets: pa.Array) -> tuple[int, NDArray[np.int64]]:
    """Where the elements begin in the child array, and the bounds of the rows counted from there."""
    values = offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    if not len(values):
        return 0, np.zeros(1, np.int64)
    return int(values[0]), values - values[0]
