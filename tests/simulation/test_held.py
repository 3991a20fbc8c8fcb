"""Each promise about the index is seen when it is broken: what two batches left there is changed in one place."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from simulation.held import IndexPromises
from simulation.intruders import checkpoint_of, deployment_of
from simulation.promises import BrokenPromiseError, Places, Promises
from simulation.simulation import delivered_before
from simulation.table import table_states
from simulation.world import Change
from support.sinks.memory_index import MemoryIndex

KEYS = (("initial_load", "full"), ("max_steps_per_batch", 1))
DELIVERS = (*KEYS, ("delivers", "staged"))
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


def test_staged_changes_go_only_once_the_next_batch_has_arrived() -> None:
    world = delivered_before(DELIVERS, 2)
    places = checkpoint_of(deployment_of(DELIVERS, ()), Places(objects=dict(world.objects)))
    deleted = Change(MANIFEST, places.objects.pop(MANIFEST), None, "somebody")

    def see(places: Places) -> None:
        Promises(places=places, states=table_states(), heads=table_states().main).changed(deleted)

    with pytest.raises(BrokenPromiseError, match="changed the manifest"):
        see(places)
    places.objects[COMMIT.replace("0.json", "1.json")] = json.dumps({}).encode()
    see(places)
    with pytest.raises(BrokenPromiseError, match="changed the manifest"):
        see(replace(places, keeps=True))
