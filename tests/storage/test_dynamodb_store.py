import base64
import re
import traceback
from collections.abc import Iterator
from datetime import timedelta
from threading import Event
from typing import Any
from uuid import uuid4

import pytest
from botocore import retryhandler

from icefloe.errors import TerminalError, TransientError
from icefloe.patience import silence_of
from icefloe.storage import location
from icefloe.storage.dynamodb_items import Item, Items
from icefloe.storage.location import open_store
from icefloe.storage.object_store import ObjectStore
from icefloe.storage.store import Store
from storage.contract import Memory, StoreContract
from storage.table_contract import Attributes, Both, partition, table_client
from support.servers.table_server import SECRET, Table, table_server

pytestmark = pytest.mark.slow


class TestTable(StoreContract):
    many, large_bytes = 250, 3 * 2**19

    @pytest.fixture
    def store(self, table: Table) -> Store:
        return open_store("dynamodb://icefloe/some folder", options=table.access)

    @pytest.fixture
    def behind(self, table: Table):
        return Attributes(table_client(table.access), "icefloe", "dynamodb://", "some folder/")


class TestCoordinated(StoreContract):
    many, large_bytes = 250, 3 * 2**19

    @pytest.fixture
    def bucket(self) -> str:
        return uuid4().hex

    @pytest.fixture
    def store(self, table: Table, bucket: str) -> Store:
        return open_store(f"memory://{bucket}", options=table.options())

    @pytest.fixture
    def behind(self, table: Table, bucket: str):
        objects = Memory(location._memory_root(bucket))
        items = Attributes(table_client(table.access), "icefloe", f"memory://{bucket}", objects=objects)
        return Both(items, objects)


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retryhandler, "delay_exponential", lambda *_, **__: 0.0)


class Storm:
    """Strikes the first requests of an operation, each by a fault of its own."""

    def __init__(self) -> None:
        self.faults: dict[str, list[str | None]] = {}

    def __call__(self, operation: str, _: dict[str, Any]) -> str | None:
        left = self.faults.get(operation, [])
        return left.pop(0) if left else None


@pytest.fixture
def storm() -> Storm:
    return Storm()


@pytest.fixture
def struck(storm: Storm) -> Iterator[Table]:
    with table_server(storm) as served:
        yield served


LARGE = bytes(range(256)) * 4096


def coordinated(table: Table, name: str | None = None) -> Store:
    return open_store(f"memory://{name or uuid4().hex}", options=table.options())


def test_a_large_value_that_others_replace_again_and_again_is_read_in_the_end(table, monkeypatch):
    store, other = (coordinated(table, "replaced") for _ in range(2))
    store.create("a/key", LARGE)
    left = list(range(20))
    get = ObjectStore.get

    def late_get(objects: ObjectStore, name: str) -> bytes:
        if left:
            other.put("a/key", LARGE + bytes([left.pop()]))
        return get(objects, name)

    monkeypatch.setattr(ObjectStore, "get", late_get)
    assert store.get("a/key") == LARGE + bytes([0])
    assert left == []


@pytest.mark.parametrize(
    ("operation", "code"),
    [
        ("GetItem", "ThrottlingException"),
        ("PutItem", "InternalServerError"),
        ("Query", "lost"),
        ("BatchGetItem", "ProvisionedThroughputExceededException"),
        ("BatchWriteItem", "lost"),
    ],
)
def test_a_request_that_was_throttled_failed_or_lost_is_sent_again(struck, storm, operation, code):
    store = coordinated(struck)
    storm.faults[operation] = [code, code]
    assert store.create("a/key", b"value")
    assert store.get("a/key") == b"value"
    assert [each.key for each in store.list("a")] == ["a/key"]
    store.delete(["a/key"])
    assert store.size("a/key") is None
    assert storm.faults[operation] == []


def test_a_create_whose_answer_was_lost_is_known_as_its_own_and_another_ones_is_not(struck, storm):
    one, other = coordinated(struck, "lost"), coordinated(struck, "lost")
    storm.faults["PutItem"] = ["lost"]
    assert one.create("key", b"the same bytes") is True
    assert struck.calls.count("PutItem") == 2
    storm.faults["PutItem"] = ["lost"]
    assert other.create("key", b"the same bytes") is False


def test_a_table_that_is_silent_is_waited_for_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ICEFLOE_PATIENCE_SECONDS", "0.6")
    is_well, tries = Event(), list[str]()

    def stall(operation: str, _: dict[str, Any]) -> None:
        tries.append(operation)
        is_well.wait(30)

    with table_server(stall) as served:
        for number in range(3):
            tries.clear()
            # A task of its own, as it opens the table anew.
            with pytest.raises(TransientError, match=r"cannot read dynamodb://icefloe: .*; try again"):
                open_store(f"dynamodb://icefloe/{number}", options=served.access).size("key")
            # How often the first asks in its patience depends on the machine; who comes later asks once.
            assert len(tries) == 1 or number == 0
        is_well.set()
        store = open_store("dynamodb://icefloe", options=served.access)
        assert store.size("key") is None
        assert not silence_of("dynamodb://icefloe", served.endpoint, "eu-west-1").is_recent


def test_credentials_that_cannot_be_fetched_may_come_later(table, monkeypatch, tmp_path):
    (tmp_path / "aws").write_text("[default]\ncredential_process = false\n")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "aws"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    access = {name: value for name, value in table.access.items() if "access_key" not in name}
    with pytest.raises(TransientError, match=r"cannot open dynamodb://icefloe: .*; try again, and check the source"):
        open_store("dynamodb://icefloe", options=access).size("key")


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        ("ResourceNotFoundException", "or create it with: aws dynamodb create-table --table-name icefloe --attribute"),
        ("AccessDeniedException", "access to this table is denied"),
        ("UnrecognizedClientException", "access to this table is denied"),
        ("ValidationException", "correct the URL or the options of this table"),
    ],
)
def test_a_refusal_is_final_and_is_asked_for_once(struck, storm, code, sentence):
    storm.faults["GetItem"] = [code] * 3
    with pytest.raises(TerminalError, match=re.escape(sentence)) as caught:
        open_store("dynamodb://icefloe", options=struck.access).size("key")
    assert struck.calls == ["GetItem"]
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_documents_from_before_the_store_was_coordinated_still_count(table):
    bucket = uuid4().hex
    open_store(f"memory://{bucket}").create("offsets/0.json", b"old")
    store = coordinated(table, bucket)
    assert store.create("offsets/0.json", b"new") is False
    assert store.get("offsets/0.json") == b"old"


@pytest.mark.parametrize("method", ["create", "replace"])
@pytest.mark.parametrize("url", ["dynamodb://icefloe", "memory://"])
def test_a_value_that_went_before_it_was_named_is_written_again(table, monkeypatch, url, method):
    """A sweep comes between value and item, or a request is sent again after another writer's."""
    store = open_store(f"{url}{uuid4().hex}" if url == "memory://" else url, options=table.options())
    assert store.create("a/key", b"small")
    key = "a/key" if method == "replace" else "a/other"
    name = getattr(Items, method)

    def late(items: Items, item: Item) -> Any:
        # Chunks are items too, which hold their values.
        if item.sha256 is not None:
            monkeypatch.setattr(Items, method, name)
            assert store.remove_unfinished("a", is_over=True) == 1
        return name(items, item)

    monkeypatch.setattr(Items, method, late)
    assert (store.create if method == "create" else store.put)(key, LARGE) in (True, None)
    assert store.get(key) == LARGE
    assert store.create(key, b"another") is False


def test_a_value_whose_writer_died_before_its_item_is_removed_when_it_is_old_or_the_batch_is_over(table, monkeypatch):
    bucket = uuid4().hex
    objects, store = open_store(f"memory://{bucket}"), coordinated(table, bucket)
    objects.put(f"7/part~{uuid4().hex}", b"orphan")
    assert store.create("7/whole", LARGE)
    assert [each.key for each in store.list("")] == ["7/whole"]
    assert store.child("7").remove_unfinished() == 0
    assert store.child("7").remove_unfinished(is_over=True) == 1
    assert store.get("7/whole") == LARGE
    alone = open_store("dynamodb://icefloe", options=table.access)
    assert alone.create("8/whole", LARGE)
    item = table.items.pop((partition("dynamodb://", "8/whole"), "8/whole"))
    assert alone.remove_unfinished("8", is_over=True) == 1
    assert [key for _, key in table.items] == ["7/whole"]
    assert "sha256" in item
    objects.put(f"7/part~{uuid4().hex}", b"orphan")
    monkeypatch.setattr("icefloe.storage.dynamodb_store._OLD", timedelta(days=-1))
    assert (store.remove_unfinished(), store.get("7/whole")) == (1, LARGE)


def test_a_damaged_value_is_never_returned(table):
    store = open_store("dynamodb://icefloe", options=table.access)
    store.create("key", LARGE)
    chunk = next(item for (place, _), item in table.items.items() if "#chunks#" in place)
    chunk["value"] = {"B": base64.b64encode(bytes(350 * 1024)).decode()}
    with pytest.raises(TransientError, match="is damaged"):
        store.get("key")


def test_an_item_of_a_newer_release_or_of_another_program_is_not_taken_for_one_of_ours(table):
    store = open_store("dynamodb://icefloe", options=table.access)
    store.create("key", b"x")
    item = table.items[partition("dynamodb://", "key"), "key"]
    item["format"] = {"N": "2"}
    with pytest.raises(TerminalError, match="written by a newer release"):
        store.get("key")
    item.pop("format")
    with pytest.raises(TerminalError, match="another program writes to this table"):
        store.get("key")


@pytest.mark.parametrize("url", ["dynamodb://icefloe", "memory://"])
def test_an_item_whose_value_is_gone_is_said_so_and_keeps_its_key(table, url):
    store = open_store(f"{url}{uuid4().hex}" if url == "memory://" else url, options=table.options())
    assert store.create("a/key", LARGE)
    for place in [place for place in table.items if "#chunks#" in place[0]]:
        del table.items[place]
    if url == "memory://":
        objects = open_store(store.url)
        objects.delete([each.key for each in objects.list("")])
    for read in (lambda: store.get("a/key"), lambda: store.get_ranges("a/key", [(0, 1)])):
        with pytest.raises(TransientError, match="is gone, though its item in dynamodb://icefloe names it; restore"):
            read()
    assert store.create("a/key", b"another") is False
    store.put("a/key", b"another")
    assert store.get("a/key") == b"another"
