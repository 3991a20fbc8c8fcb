"""The suite of a store: what batches rely on, looked at behind the store's back."""

import json
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from subprocess import PIPE, Popen
from types import MappingProxyType

import pytest

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
RACER = """
import json, sys, time
from icefloe.storage.location import open_store
url, options, name = sys.argv[1:]
store = open_store(url, options=json.loads(options))
for line in sys.stdin:
    key, begin = line.split()
    while time.monotonic() < float(begin):
        pass
    print(store.create(key, name.encode() * 1000), flush=True)
"""


class Behind(ABC):
    """The same place seen without the store under test."""

    @abstractmethod
    def read(self, key: str) -> bytes | None: ...

    @abstractmethod
    def write(self, key: str, data: bytes) -> None: ...

    @abstractmethod
    def keys(self) -> set[str]: ...


class StoreConformance:
    """The tests; a subclass gives the fixtures ``store``, which is empty, and ``behind``."""

    options: Mapping[str, str] | None = MappingProxyType({})
    """Those with which another process opens the store by its URL; None: no other process sees it."""
    many = 300
    """Number of values that need more than one request to be listed or deleted."""
    large_bytes = 9 * 2**20
    """Size of a value that is written in other ways than small ones."""

    @pytest.mark.parametrize("key", KEYS)
    def test_a_value_that_was_put_is_what_lies_there(self, store: Store, behind: Behind, key: str) -> None:
        store.put(key, BYTES)
        assert behind.read(key) == BYTES
        assert behind.keys() == {key}

    @pytest.mark.parametrize("key", KEYS)
    def test_a_value_that_lies_there_is_what_is_got(self, store: Store, behind: Behind, key: str) -> None:
        behind.write(key, BYTES)
        assert store.get(key) == BYTES
        assert store.size(key) == len(BYTES)
        assert [(found.key, found.size_bytes) for found in store.list("")] == [(key, len(BYTES))]

    def test_a_create_keeps_what_is_there(self, store: Store, behind: Behind) -> None:
        assert store.create("a/key", b"first") is True
        assert store.create("a/key", b"second") is False
        assert behind.read("a/key") == b"first"
        behind.write("by/another", b"theirs")
        assert store.create("by/another", b"ours") is False
        assert behind.read("by/another") == b"theirs"

    def test_of_racing_creators_exactly_one_wins_and_its_value_is_kept(self, store: Store, behind: Behind) -> None:
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

    def test_of_two_creators_of_a_large_file_one_wins_and_its_value_is_kept(
        self, store: Store, behind: Behind, tmp_path: Path
    ) -> None:
        values = [bytes([racer]) * self.large_bytes for racer in range(2)]
        files = [tmp_path / str(racer) for racer in range(2)]
        for file, value in zip(files, values, strict=True):
            file.write_bytes(value)
        with ThreadPoolExecutor(2) as pool:
            won = list(pool.map(lambda file: store.create("key", file), files))
        assert won.count(True) == 1
        assert behind.read("key") == values[won.index(True)]
        assert behind.keys() == {"key"}

    def test_of_processes_that_create_at_once_exactly_one_wins(self, store: Store, behind: Behind) -> None:
        if self.options is None:
            pytest.skip("no other process sees this store")
        command = [sys.executable, "-c", RACER, store.url, json.dumps(dict(self.options))]
        environ = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        with ExitStack() as stack:
            racers = [
                stack.enter_context(
                    Popen([*command, name], stdin=PIPE, stdout=PIPE, text=True, env=environ)  # noqa: S603 - our own
                )
                for name in "ab"
            ]
            for key in (f"races/{number}" for number in range(30)):
                begin = time.monotonic() + 0.02
                for racer in racers:
                    print(key, begin, file=racer.stdin, flush=True)
                won = [racer.stdout.readline().strip() if racer.stdout else "" for racer in racers]
                assert sorted(won) == ["False", "True"], f"{key}: {won}"
                assert behind.read(key) == (b"a" if won[0] == "True" else b"b") * 1000

    def test_a_reader_never_sees_half_a_value(self, store: Store, behind: Behind, tmp_path: Path) -> None:
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

    def test_a_missing_key_is_missing(self, store: Store) -> None:
        assert store.size("nope") is None
        assert list(store.list("")) == []
        assert list(store.list("no/such/folder")) == []
        with pytest.raises(KeyMissingError, match=r"no object .*a/nope") as caught:
            store.get("a/nope")
        assert f"{caught.value.url}/{caught.value.key}" == f"{store.url}/a/nope"
        with pytest.raises(KeyMissingError):
            store.get_ranges("nope", [(0, 1)])

    def test_ranges_come_in_the_order_asked_for(self, store: Store, behind: Behind) -> None:
        data = random.Random(1).randbytes(5 * 2**20)
        behind.write("key", data)
        ranges = [(4 * 2**20, 5 * 2**20), (0, 3), (2, 5), (7, 7), (0, len(data)), (3_000_000, 3_000_001)]
        assert store.get_ranges("key", ranges) == [data[start:stop] for start, stop in ranges]
        assert store.get_ranges("key", []) == []
        assert store.get_ranges("key", [(9, 9)]) == [b""]

    @pytest.mark.parametrize(
        "ranges", [[(90, 101)], [(100, 101)], [(200, 300)], [(0, 2), (95, 105)], [(0, 100), (3 * 2**20, 4 * 2**20)]]
    )
    def test_a_range_beyond_the_end_is_an_error_never_fewer_bytes(
        self, store: Store, behind: Behind, ranges: list[tuple[int, int]]
    ) -> None:
        behind.write("key", bytes(100))
        with pytest.raises(RangeMissingError, match=r"key has 100 bytes") as caught:
            store.get_ranges("key", ranges)
        assert f"{caught.value.url}/{caught.value.key}" == f"{store.url}/key"
        assert caught.value.size_bytes == 100

    def test_a_listing_gives_the_keys_below_a_folder_and_no_others(self, store: Store, behind: Behind) -> None:
        for key in ("a/1", "a/b/2", "ab/3", "a.json", "c"):
            behind.write(key, key.encode())
        assert {found.key for found in store.list("")} == {"a/1", "a/b/2", "ab/3", "a.json", "c"}
        assert {found.key for found in store.list("a")} == {found.key for found in store.list("a/")} == {"a/1", "a/b/2"}
        assert [found.key for found in store.list("a/b")] == ["a/b/2"]
        assert all(found.modified.tzinfo is not None for found in store.list(""))

    def test_a_delete_passes_over_what_is_missing_and_takes_the_rest(self, store: Store, behind: Behind) -> None:
        keys = [f"old/{number}" for number in range(self.many)]
        for key in (*keys, "kept"):
            behind.write(key, b"x")
        store.delete(["no/such", *keys[:70], "old/none", *keys[70:], "old/none"])
        store.delete([])
        store.delete(key for key in ("nope",))
        assert behind.keys() == {"kept"}
