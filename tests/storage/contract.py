"""The contract of the stores of icefloe: `StoreConformance`, and what no store of another package must do alike."""

import random
from collections.abc import Mapping

import obstore
import pytest
from obstore.store import MemoryStore

from icefloe.errors import TerminalError, TransientError
from icefloe.storage.store import KeyMissingError, RangeMissingError, Store
from icefloe.testing import Behind, StoreConformance


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


class StoreContract(StoreConformance):
    options: Mapping[str, str] | None = None
    many = 2_100
    large_bytes = 65 * 2**20

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

    def test_a_folder_is_no_value(self, store: Store, behind: Behind):
        behind.write("folder/key", b"x")
        assert store.size("folder") is None
        with pytest.raises(KeyMissingError):
            store.get("folder")

    def test_any_range_of_an_empty_value_is_an_error(self, store: Store, behind: Behind):
        behind.write("key", b"")
        with pytest.raises(RangeMissingError):
            store.get_ranges("key", [(0, 1)])

    @pytest.mark.parametrize("ranges", [[(-1, 2)], [(5, 3)]], ids=str)
    def test_a_range_that_is_none_is_refused(self, store: Store, behind: Behind, ranges):
        behind.write("key", bytes(100))
        with pytest.raises(ValueError, match="0 <= start <= stop"):
            store.get_ranges("key", ranges)

    def test_a_long_listing_is_whole(self, store: Store, behind: Behind):
        keys = {f"many/{number}" for number in range(self.many)}
        for key in keys:
            behind.write(key, b"")
        assert {found.key for found in store.list("many")} == keys

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
