"""The contract of every store. Backends subclass `StoreContract` and say how to look behind the store's back."""

import random
import threading
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

import obstore
import pytest
from obstore.store import MemoryStore

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store

KEYS = [
    "pipeline.json",
    "offsets/7.json",
    "a/b/c/d/e",
    "with space/and more",
    "hash#tag/x#y",
    "percent%41/100%",
    "ünï/日本",
    "plus+equals=q?mark&",
    "_batch=3/part-0.parquet",
]
BYTES = bytes(range(256)) * 4


class Behind(ABC):
    """The same place seen without the store under test."""

    @abstractmethod
    def read(self, key: str) -> bytes | None: ...

    @abstractmethod
    def write(self, key: str, data: bytes) -> None: ...

    @abstractmethod
    def keys(self) -> set[str]: ...


class Memory(Behind):
    """Objects in this process."""

    def __init__(self, objects: MemoryStore, prefix: str = "") -> None:
        self._objects = objects
        self._prefix = prefix

    def read(self, key: str) -> bytes | None:
        try:
            return bytes(obstore.get(self._objects, self._prefix + key).bytes())
        except FileNotFoundError:
            return None

    def write(self, key: str, data: bytes) -> None:
        obstore.put(self._objects, self._prefix + key, data)

    def keys(self) -> set[str]:
        return {found["path"].removeprefix(self._prefix) for found in obstore.list(self._objects).collect()}


class StoreContract:
    """Subclasses give the fixtures ``store`` (empty) and ``behind``."""

    many = 2_100
    """Number of values that need more than one request to be listed or deleted."""
    large_bytes = 65 * 2**20
    """Size of a value that is written in other ways than small ones."""

    @pytest.mark.parametrize("key", KEYS)
    def test_a_value_that_was_put_is_what_lies_there(self, store: Store, behind: Behind, key):
        store.put(key, BYTES)
        assert behind.read(key) == BYTES
        assert behind.keys() == {key}

    @pytest.mark.parametrize("key", KEYS)
    def test_a_value_that_lies_there_is_what_is_got(self, store: Store, behind: Behind, key):
        behind.write(key, BYTES)
        assert store.get(key) == BYTES
        assert store.size(key) == len(BYTES)
        assert [(found.key, found.size_bytes) for found in store.list("")] == [(key, len(BYTES))]

    def test_an_empty_value_is_a_value(self, store: Store, behind: Behind):
        store.put("put", b"")
        assert store.create("created", b"")
        assert (behind.read("put"), behind.read("created")) == (b"", b"")
        assert (store.size("put"), store.get("created")) == (0, b"")
        assert not store.create("put", b"other")

    def test_a_large_value_arrives_whole(self, store: Store, behind: Behind):
        data = random.Random(7).randbytes(min(24 * 2**20, self.large_bytes) + 5)
        store.put("large", data)
        assert behind.read("large") == data
        assert store.create("large created", data)
        assert behind.read("large created") == data
        assert store.get("large") == data

    @pytest.mark.parametrize("size_bytes", [0, 1, 8 * 2**20, 20 * 2**20 + 3])
    def test_a_file_is_put_whole(self, store: Store, behind: Behind, tmp_path, size_bytes):
        source = tmp_path / "source file #1"
        source.write_bytes(random.Random(size_bytes).randbytes(min(size_bytes, self.large_bytes)))
        store.put("a/file", source)
        assert behind.read("a/file") == source.read_bytes()
        assert behind.keys() == {"a/file"}

    def test_a_file_that_is_gone_is_an_error_that_names_it_and_leaves_the_value(self, store, behind, tmp_path):
        behind.write("key", b"kept")
        with pytest.raises(TransientError, match=r"gone\.bin"):
            store.put("key", tmp_path / "gone.bin")
        assert behind.read("key") == b"kept"

    def test_a_put_replaces(self, store: Store, behind: Behind, tmp_path):
        behind.write("key", b"a long first value")
        store.put("key", b"second")
        assert behind.read("key") == b"second"
        (tmp_path / "third").write_bytes(b"third")
        store.put("key", tmp_path / "third")
        assert behind.read("key") == b"third"

    def test_a_create_keeps_what_is_there(self, store: Store, behind: Behind):
        assert store.create("a/key", b"first") is True
        assert store.create("a/key", b"second") is False
        assert behind.read("a/key") == b"first"
        behind.write("by/another", b"theirs")
        assert store.create("by/another", b"ours") is False
        assert behind.read("by/another") == b"theirs"

    def test_of_racing_creators_exactly_one_wins_and_its_value_is_kept(self, store: Store, behind: Behind):
        racers = 8
        barrier = threading.Barrier(racers)

        def race(racer: int, key: str) -> bool:
            barrier.wait()
            return store.create(key, b"%d" % racer * 1000)

        with ThreadPoolExecutor(racers) as pool:
            for key in (f"races/{number}" for number in range(30)):
                won = list(pool.map(lambda racer, key=key: race(racer, key), range(racers)))
                assert won.count(True) == 1
                assert behind.read(key) == b"%d" % won.index(True) * 1000
        assert len(behind.keys()) == 30

    def test_of_two_creators_of_a_large_file_one_wins_and_its_value_is_kept(self, store, behind: Behind, tmp_path):
        values = [bytes([racer]) * self.large_bytes for racer in range(2)]
        files = [tmp_path / str(racer) for racer in range(2)]
        for file, value in zip(files, values, strict=True):
            file.write_bytes(value)
        with ThreadPoolExecutor(2) as pool:
            won = list(pool.map(lambda file: store.create("large file", file), files))
        assert won.count(True) == 1
        assert behind.read("large file") == values[won.index(True)]

    def test_a_reader_never_sees_half_a_value(self, store: Store, behind: Behind, tmp_path):
        values = [bytes([number]) * 2**20 for number in range(4)]
        files = [tmp_path / str(number) for number in range(4)]
        for file, value in zip(files, values, strict=True):
            file.write_bytes((value * 9)[: self.large_bytes])
        store.put("key", values[0])
        is_over = threading.Event()

        def replace() -> None:
            for number in range(24):
                store.put("key", files[number % 4] if number % 8 == 7 else values[number % 4])
            is_over.set()

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(replace)
            seen = 0
            while seen < 2 or (not is_over.is_set() and not writing.done()):
                data = behind.read("key") if seen % 2 else store.get("key")
                assert data is not None
                assert len(data) in (2**20, 9 * 2**20, self.large_bytes)
                assert data == data[:1] * len(data)
                seen += 1
            writing.result()

    def test_a_missing_key_is_missing(self, store: Store):
        assert store.size("nope") is None
        assert list(store.list("")) == []
        assert list(store.list("no/such/folder")) == []
        with pytest.raises(KeyMissingError, match=r"no object .*a/nope") as caught:
            store.get("a/nope")
        assert f"{caught.value.url}/{caught.value.key}" == f"{store.url}/a/nope"
        with pytest.raises(KeyMissingError):
            store.get_ranges("nope", [(0, 1)])

    def test_a_folder_is_no_value(self, store: Store, behind: Behind):
        behind.write("folder/key", b"x")
        assert store.size("folder") is None
        with pytest.raises(KeyMissingError):
            store.get("folder")

    def test_ranges_come_in_the_order_asked_for(self, store: Store, behind: Behind):
        data = random.Random(1).randbytes(5 * 2**20)
        behind.write("key", data)
        ranges = [(4 * 2**20, 5 * 2**20), (0, 3), (2, 5), (7, 7), (0, len(data)), (3_000_000, 3_000_001)]
        assert store.get_ranges("key", ranges) == [data[start:stop] for start, stop in ranges]
        assert store.get_ranges("key", []) == []
        assert store.get_ranges("key", [(9, 9)]) == [b""]

    @pytest.mark.parametrize(
        "ranges",
        [
            [(90, 101)],
            [(100, 101)],
            [(200, 300)],
            [(0, 2), (190, 210)],
            [(0, 2), (95, 105)],
            [(0, 100), (3 * 2**20, 4 * 2**20)],
        ],
        ids=str,
    )
    def test_a_range_beyond_the_end_is_an_error_never_fewer_bytes(self, store: Store, behind: Behind, ranges):
        behind.write("key", bytes(100))
        with pytest.raises(RangeMissingError, match=r"key has 100 bytes") as caught:
            store.get_ranges("key", ranges)
        assert f"{caught.value.url}/{caught.value.key}" == f"{store.url}/key"
        assert caught.value.size_bytes == 100

    def test_any_range_of_an_empty_value_is_an_error(self, store: Store, behind: Behind):
        behind.write("key", b"")
        with pytest.raises(RangeMissingError):
            store.get_ranges("key", [(0, 1)])

    @pytest.mark.parametrize("ranges", [[(-1, 2)], [(5, 3)]], ids=str)
    def test_a_range_that_is_none_is_refused(self, store: Store, behind: Behind, ranges):
        behind.write("key", bytes(100))
        with pytest.raises(ValueError, match="0 <= start <= stop"):
            store.get_ranges("key", ranges)

    def test_a_listing_gives_the_keys_below_a_folder_and_no_others(self, store: Store, behind: Behind):
        for key in ("a/1", "a/b/2", "ab/3", "a.json", "c"):
            behind.write(key, key.encode())
        assert {found.key for found in store.list("")} == {"a/1", "a/b/2", "ab/3", "a.json", "c"}
        assert {found.key for found in store.list("a")} == {found.key for found in store.list("a/")} == {"a/1", "a/b/2"}
        assert [found.key for found in store.list("a/b")] == ["a/b/2"]
        assert all(found.modified.tzinfo is not None for found in store.list(""))

    def test_a_long_listing_is_whole(self, store: Store, behind: Behind):
        keys = {f"many/{number}" for number in range(self.many)}
        for key in keys:
            behind.write(key, b"")
        assert {found.key for found in store.list("many")} == keys

    def test_a_delete_passes_over_what_is_missing_and_takes_the_rest(self, store: Store, behind: Behind):
        keys = [f"old/{number}" for number in range(self.many)]
        for key in (*keys, "kept"):
            behind.write(key, b"x")
        store.delete(["no/such", *keys[:70], "old/none", *keys[70:], "old/none"])
        store.delete([])
        store.delete(key for key in ("nope",))
        assert behind.keys() == {"kept"}

    def test_a_deleted_key_can_be_created_again(self, store: Store, behind: Behind):
        assert store.create("key", b"first")
        store.delete(["key"])
        assert (store.size("key"), behind.read("key")) == (None, None)
        assert store.create("key", b"second")
        assert behind.read("key") == b"second"

    def test_a_child_is_the_part_below_a_folder(self, store: Store, behind: Behind):
        child = store.child("a b/c%41#1")
        child.put("d/e", b"1")
        assert child.create("f", b"2")
        assert behind.keys() == {"a b/c%41#1/d/e", "a b/c%41#1/f"}
        behind.write("a b/other", b"not below")
        assert {found.key for found in child.list("")} == {"d/e", "f"}
        assert [found.key for found in child.list("d")] == ["d/e"]
        assert (child.get("f"), child.size("d/e"), child.get_ranges("f", [(0, 1)])) == (b"2", 1, [b"2"])
        assert [found.key for found in child.child("d").list("")] == ["e"]
        child.delete(["f", "g"])
        assert behind.keys() == {"a b/c%41#1/d/e", "a b/other"}
        with pytest.raises(KeyMissingError, match=r"a b/c%(25)?41#1/nope"):
            child.get("nope")

    @pytest.mark.parametrize("key", ["", "/a", "a/", "a//b", "../a", "a/./b", "a\nb", "part.parquet#1"])
    def test_a_key_that_some_store_could_not_hold_is_refused_by_all(self, store: Store, behind: Behind, key):
        for attempt in (
            lambda: store.put(key, b""),
            lambda: store.create(key, b""),
            lambda: store.get(key),
            lambda: store.size(key),
            lambda: store.delete([key]),
            lambda: store.child("c").put(key, b""),
        ):
            with pytest.raises(TerminalError, match="cannot be the key"):
                attempt()
        assert behind.keys() == set()

    def test_its_name_is_its_place(self, store: Store):
        assert store.url in repr(store)
        assert not store.url.endswith("/")
