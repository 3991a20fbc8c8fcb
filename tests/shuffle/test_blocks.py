import io
import random

import lz4.frame
import pyarrow as pa
import pytest

from icefloe.shuffle import blocks
from icefloe.shuffle.blocks import compress_block, decode_block, stream_block
from shuffle.shuffled_rows import some_rows

MAX_BYTES = 1 << 20


def streamed(data, schema, *, max_bytes):
    return list(stream_block(io.BytesIO(data), schema, max_bytes=max_bytes))


WAYS = pytest.mark.parametrize("decode", [decode_block, streamed])


def small_batch(rows=4):
    return some_rows(rows, num_partitions=1).batch


def encode_block(batches):
    messages = [batch.serialize() for batch in batches]
    return b"".join(compress_block(messages, content_bytes=sum(message.size for message in messages)))


@WAYS
def test_rows_come_back_from_a_block(decode):
    batches = [small_batch(3), small_batch(5).slice(2)]
    decoded = decode(encode_block(batches), batches[0].schema, max_bytes=MAX_BYTES)
    assert pa.Table.from_batches(decoded).equals(pa.Table.from_batches(batches))


@WAYS
def test_no_bytes_are_a_lost_block(decode):
    with pytest.raises(ValueError):
        decode(b"", small_batch().schema, max_bytes=MAX_BYTES)


@WAYS
def test_every_arrow_type_of_a_table_survives(decode):
    struct = pa.array([{"a": 1, "b": ["x"]}, None, {"a": None, "b": None}])
    columns = {
        "uuid": pa.array([b"0123456789abcdef", None, b"fedcba9876543210"], pa.uuid()),
        "fixed": pa.array([b"ab", None, b"cd"], pa.binary(2)),
        "time": pa.array([1, None, 3], pa.time64("us")),
        "ts": pa.array([1, None, 3], pa.timestamp("us", tz="UTC")),
        "map": pa.array([[("k", 1)], None, []], pa.map_(pa.string(), pa.int32())),
        "struct": struct,
        "large": pa.array(["x", None, "y" * 100], pa.large_string()),
        "view": pa.array(["x", None, "y" * 100], pa.string_view()),
        "bool": pa.array([True, None, False]),
        "nothing": pa.nulls(3),
    }
    batch = pa.RecordBatch.from_pydict(columns)
    [decoded] = decode(encode_block([batch]), batch.schema, max_bytes=MAX_BYTES)
    assert decoded.equals(batch)


@WAYS
def test_every_flipped_byte_is_detected(decode):
    data = encode_block([small_batch()])
    for position in range(len(data)):
        damaged = bytearray(data)
        damaged[position] ^= 0xFF
        with pytest.raises(ValueError):
            decode(bytes(damaged), small_batch().schema, max_bytes=MAX_BYTES)


@WAYS
def test_every_truncation_and_trailing_bytes_are_detected(decode):
    data = encode_block([small_batch()])
    wrong = [data[:length] for length in range(len(data))] + [data + b"\0", data + data]
    for each in wrong:
        with pytest.raises(ValueError):
            decode(memoryview(each), small_batch().schema, max_bytes=MAX_BYTES)


@WAYS
@pytest.mark.parametrize("declared", [0, 2000, 1 << 40, (1 << 64) - 1])
def test_a_header_that_declares_too_much_allocates_nothing(declared, decode):
    data = bytearray(encode_block([small_batch()]))
    data[6:14] = declared.to_bytes(8, "little")
    header = bytes(data[4:14])
    data[14] = lz4_header_checksum(header)
    with pytest.raises(ValueError, match=f"declares {declared} bytes"):
        decode(bytes(data), small_batch().schema, max_bytes=1999)


def lz4_header_checksum(descriptor):
    for candidate in range(256):
        try:
            lz4.frame.get_frame_info(b"\x04\x22\x4d\x18" + descriptor + bytes([candidate]) + bytes(8))
        except RuntimeError:
            continue
        return candidate
    raise AssertionError("no header checksum fits")


@WAYS
def test_damage_that_both_checksums_miss_never_crashes(decode):
    """Messages damaged before they were compressed are refused, or hold rows that can be read to the last value."""
    batch = small_batch()
    content = batch.serialize().to_pybytes()
    dice = random.Random(5)
    refused = 0
    for _ in range(600):
        damaged = bytearray(content)
        for _ in range(dice.randint(1, 4)):
            damaged[dice.randrange(len(content))] = dice.randrange(256)
        block = b"".join(compress_block([damaged], content_bytes=len(damaged)))
        try:
            for decoded in decode(block, batch.schema, max_bytes=MAX_BYTES):
                assert decoded.schema == batch.schema
                decoded.to_pylist()
        except ValueError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize("piece_bytes", [1, 7, 64, 1 << 20])
def test_a_block_is_read_piece_by_piece(piece_bytes, monkeypatch):
    batches = [small_batch(300), small_batch(5), small_batch(300)]
    data = encode_block(batches)
    monkeypatch.setattr(blocks, "_READ_BYTES", piece_bytes)
    decoded = streamed(data, batches[0].schema, max_bytes=MAX_BYTES)
    assert pa.Table.from_batches(decoded).equals(pa.Table.from_batches(batches))


class NoMemoryForLz4:
    """Says it as the bindings of LZ4 do: in the class of error that they also have for damaged bytes."""

    eof = False
    unused_data = b""
    needs_input = True

    def __init__(self, **_):
        pass

    def begin(self, **_):
        raise RuntimeError("LZ4F_compressBegin failed with code: ERROR_allocation_failed")

    def decompress(self, _data, **_):
        raise RuntimeError("LZ4F_decompress failed with code: ERROR_allocation_failed")


@WAYS
def test_a_block_that_lz4_has_no_memory_to_read_is_not_damaged(decode, monkeypatch):
    data = encode_block([small_batch()])
    monkeypatch.setattr(lz4.frame, "LZ4FrameDecompressor", NoMemoryForLz4)
    with pytest.raises(MemoryError, match="allocation_failed"):
        decode(data, small_batch().schema, max_bytes=MAX_BYTES)


@pytest.mark.parametrize("content", [b"x", b"\xff\xff\xff\xff\0\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\x7f", bytes(64)])
def test_bytes_that_are_no_arrow_message_are_refused(content):
    block = b"".join(compress_block([content], content_bytes=len(content)))
    with pytest.raises(ValueError):
        decode_block(block, small_batch().schema, max_bytes=MAX_BYTES)


@pytest.mark.parametrize("settings", [{"content_checksum": False}, {"store_size": False}, {"block_size": 7}])
def test_a_frame_of_other_lz4_settings_is_refused(settings):
    content = small_batch().serialize()
    block = lz4.frame.compress(content, **{"content_checksum": True, "block_linked": True} | settings)
    with pytest.raises(ValueError, match="header of a block"):
        decode_block(block, small_batch().schema, max_bytes=MAX_BYTES)
