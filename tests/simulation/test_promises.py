"""Each promise is seen when it is broken: what three delivered batches left is changed in one place."""

import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest

from simulation.delivered import require_delivered, require_nothing_left
from simulation.held import IndexPromises
from simulation.promises import BrokenPromiseError, Places, Promises, is_path
from simulation.simulation import checkpoint_of, delivered_before, deployment_of
from simulation.table import table_states
from simulation.world import Change
from support.sinks.memory_index import MemoryIndex

KEYS = (("initial_load", "from_earliest"), ("max_steps_per_batch", 1))
CHECKPOINT = "storage/checkpoints/events"
FOLDER = "storage/shuffle/events/c1/3"
OPEN = {("c1", 3): ""}
Objects = dict[str, bytes]


@pytest.fixture
def objects() -> Objects:
    """Batches 0 to 2 of a pipeline that delivered each commit by itself."""
    return dict(delivered_before(KEYS, 3).objects)


def document(objects: Objects, key: str) -> dict[str, Any]:
    return json.loads(objects[key])


def edited(objects: Objects, key: str, **values: Any) -> bytes:
    return json.dumps({**document(objects, key), **values}).encode()


def see(objects: Objects, key: str, after: bytes | None, *, keeps: bool = True) -> None:
    """Makes a change before the eyes of the promises, while batch 3 of checkpoint c1 is open."""
    promises = Promises(
        places=Places(objects=objects, keeps=keeps), states=table_states(), heads=table_states().main, open=dict(OPEN)
    )
    before = objects.get(key)
    if after is None:
        del objects[key]
    else:
        objects[key] = after
    promises.changed(Change(key, before, after, "somebody"))


def commit_after(objects: Objects, *, outcome: str = "delivered", **values: Any) -> bytes:
    """A commit record of batch 3."""
    cursor = {"batch_number": 3, "snapshot_id": values.pop("up_to_snapshot_id", up_to(objects, 2))}
    ending = {"outcome": outcome, "cursor": cursor}
    return edited(objects, f"{CHECKPOINT}/commits/2.json", checkpoint_id="c1", ending=ending, **values)


def up_to(objects: Objects, number: int) -> str:
    """The snapshot of the cursor after a batch."""
    return str(document(objects, f"{CHECKPOINT}/commits/{number}.json")["ending"]["cursor"]["snapshot_id"])


def test_a_batch_that_does_not_go_on_where_the_one_before_ended_breaks_a_promise(objects: Objects) -> None:
    first, last = up_to(objects, 0), up_to(objects, 2)
    key = f"{CHECKPOINT}/commits/3.json"
    with pytest.raises(BrokenPromiseError, match="begins after"):
        see(objects, key, commit_after(objects, after_snapshot_id=first))
    del objects[key]
    with pytest.raises(BrokenPromiseError, match="backwards"):
        see(objects, key, commit_after(objects, after_snapshot_id=last, up_to_snapshot_id=first))
    del objects[key]
    with pytest.raises(BrokenPromiseError, match="no manifest"):
        see(objects, key, commit_after(objects, after_snapshot_id=last, up_to_snapshot_id=last))
    with pytest.raises(BrokenPromiseError, match="which was not open"):
        see(objects, f"{CHECKPOINT}/commits/4.json", commit_after(objects, after_snapshot_id=last))


def path(*commits: int | None) -> list[dict[str, Any]]:
    return [{"route": "shuffle", "up_to_snapshot_id": None if each is None else str(each)} for each in commits]


def test_a_cursor_goes_back_only_where_the_table_was_rolled_back_and_only_once() -> None:
    states = table_states()
    first, second, third, fourth, *_ = states.main
    other = next(each for each, before in states.before.items() if before == second and each != third)
    heads = (*states.main[:4], second, other)
    assert is_path(states, heads, path(None, first, third, second, other))
    assert is_path(states, heads, path(fourth, other))
    assert is_path(states, states.main[:4], path(first, third, fourth))
    assert not is_path(states, states.main[:4], path(third, second))
    assert not is_path(states, heads, path(fourth, first))
    assert not is_path(states, heads, path(third, second, third))
    assert not is_path(states, heads, path(other, fourth))
    moved = [*path(fourth), {"route": "cursor_set", "up_to_snapshot_id": str(first)}, *path(second)]
    assert is_path(states, states.main[:4], moved)


def lose_a_part(manifest: dict[str, Any]) -> None:
    manifest["batch"]["hash_sum"] = "0" * 32
    manifest["parts"] = []


def double_a_part(manifest: dict[str, Any]) -> None:
    [part, *_] = manifest["parts"]
    manifest["parts"].append(part)
    sums = (int(each["hash_sum"], 16) for each in manifest["parts"])
    manifest["batch"]["hash_sum"] = f"{sum(sums) % (1 << 128):032x}"


def wrong_sum(manifest: dict[str, Any]) -> None:
    manifest["batch"]["hash_sum"] = "1" * 32


def wrong_sum_of_a_part(manifest: dict[str, Any]) -> None:
    manifest["parts"][0]["hash_sum"] = "1" * 32


@pytest.mark.parametrize(
    ("edit", "sentence"),
    [
        (lose_a_part, "batch 1 delivered {}"),
        (double_a_part, "batch 1 delivered"),
        (wrong_sum, "the sum of batch 1"),
        (wrong_sum_of_a_part, "the sum of .* of batch 1"),
    ],
)
def test_rows_and_sums_of_a_batch_are_those_of_the_table(
    objects: Objects, edit: Callable[[dict[str, Any]], None], sentence: str
) -> None:
    states, key = table_states(), "changes/batch=1/_manifest.json"
    cursor = require_delivered(Places(objects=objects), states, "", is_load=True)
    assert cursor == states.main[2]
    manifest = deepcopy(document(objects, key))
    edit(manifest)
    objects[key] = json.dumps(manifest).encode()
    with pytest.raises(BrokenPromiseError, match=sentence):
        require_delivered(Places(objects=objects), states, "", is_load=True)


@pytest.mark.parametrize("key", [f"{FOLDER}/plan.json", "changes/batch=1/part-9.parquet", "changes/_probe-0"])
def test_files_that_are_left_are_seen(objects: Objects, key: str) -> None:
    require_nothing_left(Places(objects=objects))
    objects[key] = b""
    with pytest.raises(BrokenPromiseError, match="1 objects are left"):
        require_nothing_left(Places(objects=objects))


ONE_BY_ONE = (("initial_load", "full"), ("max_steps_per_batch", 1))
DELIVERS = (*ONE_BY_ONE, ("delivers", "staged"))
COMMIT = "storage/checkpoints/events/commits/0.json"
MANIFEST = "storage/staged/events/batch=0/_manifest.json"
LIVE = "rows-00000000000000000000"
LATER = 1 << 32


@pytest.fixture
def promises() -> IndexPromises:
    """Of a pipeline that has loaded two commits in its batch 0, under the first generation."""
    world = delivered_before(DELIVERS, 2)
    places = checkpoint_of(deployment_of(DELIVERS, ()), Places(objects=dict(world.objects)))
    return IndexPromises(index=world.index.copy(), pipelines=[places], states=table_states())


def live(index: MemoryIndex) -> str:
    document = index.get("meta", "state").document
    assert document is not None
    return str(document["live"])


def set_state(index: MemoryIndex, **values: object) -> None:
    stored = index.get("meta", "state")
    index.replace("meta", "state", {**(stored.document or {}), **values}, if_version=stored.version)


def commit_again(promises: IndexPromises) -> None:
    [places] = promises.pipelines
    promises.changed(Change(COMMIT, None, places.objects[COMMIT], "somebody"))


def test_an_index_that_holds_what_was_committed_breaks_no_promise(promises: IndexPromises) -> None:
    commit_again(promises)
    promises.indexed("bulk", "somebody")
    set_state(promises.index, owner="others", live=live(promises.index))
    promises.index.bulk(live(promises.index), [("[1]", 2 * LATER, None)])
    commit_again(promises)


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        (None, "lacks Counter.*1, 1.0"),
        ({"id": 9, "value": 9.0, "word": "x"}, "has Counter.*9, 9.0.*too much"),
    ],
    ids=["lost", "made up"],
)
def test_an_index_that_differs_from_the_table_at_a_commit_breaks_a_promise(
    promises: IndexPromises, document: dict[str, object] | None, sentence: str
) -> None:
    promises.index.bulk(live(promises.index), [("[1]", 2 * LATER, document)])
    with pytest.raises(BrokenPromiseError, match=f"committed .*{sentence}"):
        commit_again(promises)


def test_documents_of_a_batch_that_is_not_proven_break_a_promise(promises: IndexPromises) -> None:
    promises.index.bulk(live(promises.index), [("[1]", LATER + 7, None)])
    with pytest.raises(BrokenPromiseError, match="batch 7, which is not proven"):
        promises.indexed("bulk", "somebody")
    [places] = promises.pipelines
    places.objects[MANIFEST.replace("batch=0", "batch=7")] = b"{}"
    promises.indexed("bulk", "somebody")


def back_to_an_older_index(index: MemoryIndex) -> None:
    index.create_index(LIVE)
    set_state(index, live=LIVE)


def without_the_index(index: MemoryIndex) -> None:
    index.delete_index(live(index))


def an_older_load(index: MemoryIndex) -> None:
    set_state(index, loading=LIVE)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (back_to_an_older_index, "took document .* back from version"),
        (without_the_index, "which is gone"),
        (an_older_load, "a later batch is there"),
    ],
)
def test_an_index_that_goes_back_breaks_a_promise(
    promises: IndexPromises, change: Callable[[MemoryIndex], None], sentence: str
) -> None:
    change(promises.index)
    with pytest.raises(BrokenPromiseError, match=sentence):
        promises.indexed("replace", "somebody")
