"""`icefloe verify` compares what a sink really holds with the table."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from batch.verify.verified_sinks import PlainLog, VerifiedSinks
from sinks.opensearch.sinks import sink_at
from support.pipelines.workspace import icefloe
from support.sinks.fake_cluster import FakeCluster
from support.sinks.memory_index import MemoryIndex, Stored
from support.sinks.memory_log import MemoryLog
from support.sinks.registered import INDICES, LOGS, registered_sinks


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[VerifiedSinks]:
    with registered_sinks(plain=lambda _: PlainLog(LOGS[""])):
        yield VerifiedSinks.create(tmp_path)


def three_batches(lab: VerifiedSinks, sink: str, **keys: Any) -> None:
    lab.append(1, 2, 3, 4, 6)
    lab.deliver(sink, **keys)
    lab.update(2, value=7.0)
    lab.deliver(sink, **keys)
    lab.delete(3, 6)
    lab.append(5, 3)
    lab.deliver(sink, **keys)


@pytest.mark.parametrize("sink", ["index", "log"])
def test_a_sink_that_got_every_change_is_equal(lab: VerifiedSinks, sink: str) -> None:
    assert "no batch is delivered yet" in lab.verify(sink).out
    three_batches(lab, sink)
    lab.require_equal(sink, rows=5)


def test_a_sink_is_not_read_before_its_first_batch_if_the_cursor_of_a_new_pipeline_was_set(lab: VerifiedSinks) -> None:
    lab.append(1, 2)
    pipeline = lab.pipeline(sink=lab.sink("index"), engine="local")
    assert icefloe("set-cursor", pipeline, "--snapshot-id", lab.head(), "--yes").code == 0
    found = lab.verify("index", "--json")
    assert (found.code, found.document["notes"]) == (0, ["no batch is delivered yet"])


def test_rows_before_updates_that_are_not_delivered_are_not_missed(lab: VerifiedSinks) -> None:
    three_batches(lab, "log", changes="upsert")
    lab.require_equal("log", rows=5, changes="upsert")


def test_a_row_from_before_the_cursor_was_set_is_still_traced_in_the_sink(lab: VerifiedSinks) -> None:
    lab.append(1)
    lab.deliver("files", changes="upsert")
    lab.append(2)
    pipeline = lab.pipeline(sink=lab.sink("files"), engine="local", changes="upsert")
    assert icefloe("set-cursor", pipeline, "--snapshot-id", lab.head(), "--yes").code == 0
    traced = icefloe("trace", pipeline, "id=1", "--json")
    assert traced.document["sink_rows"] == traced.document["table_rows"] != []


@pytest.mark.parametrize("sink", ["index", "log"])
def test_rows_of_left_out_commits_are_counted_without_identity(lab: VerifiedSinks, sink: str) -> None:
    keys = {"changes": "append_only", "on_removed_rows": "skip", "columns": ["value"]}
    lab.append(1, 2, 3)
    lab.deliver(sink, **keys)
    lab.delete(3)
    lab.deliver(sink, **keys)
    found = lab.verify(sink, "--json", **keys)
    assert (found.code, found.document["rows"]) == (0, 2)
    assert found.document["notes"][0].startswith("1 rows differ, and on_removed_rows: skip left out commits")


@pytest.mark.parametrize("sink", ["index", "log", "files"])
def test_as_many_rows_may_differ_as_changes_were_left_out(lab: VerifiedSinks, sink: str) -> None:
    keys = {"changes": "append_only", "on_removed_rows": "skip"}
    lab.append(1, 2, 3)
    lab.deliver(sink, **keys)
    lab.delete(3)
    lab.update(2, value=7.0)
    lab.append(4)
    lab.deliver(sink, **keys)
    found = lab.verify(sink, "--json", **keys)
    assert (found.code, found.document["is_equal"]) == (0, True)
    assert found.document["counts"] == {"extra": 1, "different": 1}
    [note] = found.document["notes"]
    assert note.startswith("2 keys differ, and on_removed_rows: skip left out commits with up to 4 changes")


def test_more_rows_than_were_left_out_are_a_difference(lab: VerifiedSinks) -> None:
    keys = {"changes": "append_only", "on_removed_rows": "skip"}
    lab.append(1, 2, 3)
    lab.deliver("index", **keys)
    lab.delete(3)
    lab.deliver("index", **keys)
    del live(INDICES[""])["[1]"]
    found = lab.verify("index", "--json", **keys)
    assert found.code == 65
    assert found.document["keys"] == {"missing": ["id=1"], "extra": ["id=3"]}


def live(server: MemoryIndex) -> dict[str, Stored]:
    state = server.get("meta", "state").document
    assert state is not None
    return server._indices[state["live"]]


def test_rows_that_differ_are_named(lab: VerifiedSinks) -> None:
    three_batches(lab, "index")
    held = live(INDICES[""])
    del held["[1]"]
    held["[2]"] = Stored(1, {**(held["[2]"].document or {}), "value": 8.0})
    held["[77]"] = Stored(1, {**(held["[2]"].document or {}), "id": 77})
    found = lab.verify("index", "--json")
    assert found.code == 65
    assert found.document["counts"] == {"missing": 1, "extra": 1, "different": 1}
    assert found.document["keys"] == {"missing": ["id=1"], "extra": ["id=77"], "different": ["id=2"]}
    assert "1 keys of db.events at snapshot" in found.err
    assert "are missing in memory://index: id=1" in found.err


def test_only_the_first_keys_are_named(lab: VerifiedSinks) -> None:
    lab.append(*range(30))
    lab.deliver("index")
    live(INDICES[""]).clear()
    found = lab.verify("index", "--json").document
    assert (found["counts"], len(found["keys"]["missing"])) == ({"missing": 30}, 10)


def test_a_sample_compares_rows_of_the_table(lab: VerifiedSinks) -> None:
    three_batches(lab, "index")
    equal = lab.verify("index", "--sample", "3", "--json")
    assert (equal.code, equal.document["rows"]) == (0, 3)
    live(INDICES[""]).clear()
    found = lab.verify("index", "--sample", "2", "--json")
    assert (found.code, found.document["counts"]) == (65, {"missing": 2})


def test_a_sample_of_files_is_refused(lab: VerifiedSinks) -> None:
    refused = icefloe("verify", lab.pipeline(), "--sample", "3")
    assert refused.code == 2
    assert "--sample" in refused.sentence


def remove_a_change(log: MemoryLog) -> None:
    place = next(
        place for place, each in enumerate(log._messages) if each.topic == "changes" and each.value.get("id") == 5
    )
    del log._messages[place]


def repeat_a_change(log: MemoryLog) -> None:
    log._messages.append(next(each for each in log._messages if each.topic == "changes" and each.value.get("id") == 4))


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (remove_a_change, "1 keys of db.events at snapshot"),
        (repeat_a_change, "memory://log holds 6 changes of batch 0, but 5 were delivered"),
    ],
)
def test_a_log_with_other_changes_differs(
    lab: VerifiedSinks, damage: Callable[[MemoryLog], None], sentence: str
) -> None:
    three_batches(lab, "log")
    damage(LOGS[""])
    found = lab.verify("log")
    assert found.code == 65
    assert sentence in found.err


def test_a_log_that_forgot_its_first_batch_is_compared_by_the_keys_that_it_has(lab: VerifiedSinks) -> None:
    three_batches(lab, "log")
    log = LOGS[""]
    log._messages[:] = [each for each in log._messages if each.topic != "changes" or each.value.get("_batch") != 0]
    found = lab.verify("log", "--json")
    assert (found.code, found.err) == (0, "")
    assert found.document["notes"] == [
        "memory://log no longer holds 5 of the changes; of each key the last change was compared",
        "2 keys of db.events have no change in memory://log, and were not compared",
    ]


def test_documents_that_another_program_wrote_are_noted_until_a_load_replaces_them(tmp_path: Path) -> None:
    cluster = FakeCluster()
    with registered_sinks(search=lambda _: sink_at(cluster)):
        lab = VerifiedSinks.create(tmp_path)
        lab.append(1, 2, 3)
        lab.deliver("search")
        lab.require_equal("search", rows=3)
        cluster.update_by_query("people")
        for arguments in ([], ["--sample", "2"]):
            found = lab.verify("search", "--json", *arguments)
            assert (found.code, found.document["is_equal"]) == (0, True)
            assert "people have a later version than its last batch: another program" in found.document["notes"][-1]
        lab.update(2, value=7.0)
        pipeline = lab.pipeline(sink=lab.sink("search"), engine="local")
        failed = icefloe("run", pipeline)
        assert failed.code == 65
        assert "another program wrote or deleted document 1:2" in failed.sentence
        assert icefloe("reset", pipeline, "--yes").code == 0
        lab.deliver("search")
        lab.require_equal("search", rows=3)


def test_changes_from_before_a_reload_do_not_count(lab: VerifiedSinks) -> None:
    three_batches(lab, "log")
    assert icefloe("reset", lab.pipeline(sink={"type": "log"}, engine="local"), "--yes").code == 0
    lab.delete(1)
    lab.deliver("log")
    log = LOGS[""]
    log._messages[:] = [each for each in log._messages if "truncate" not in (each.value if each.key == "" else {})]
    lab.require_equal("log", rows=4)


def test_a_pipeline_without_a_load_is_compared_by_the_keys_that_changed(lab: VerifiedSinks) -> None:
    lab.append(1, 2)
    lab.deliver("index", initial_load="from_now")
    lab.update(2, value=5.0)
    lab.deliver("index", initial_load="from_now")
    found = lab.verify("index", "--json", initial_load="from_now")
    assert (found.code, found.document["counts"], found.document["rows"]) == (0, {}, 1)
    assert found.document["notes"] == ["1 keys of db.events have no change in memory://index, and were not compared"]


LOGS_WITHOUT_IMAGES = [("log", {"changes": "upsert"}), ("plain", {}), ("plain", {"changes": "net"})]


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_a_log_without_rows_before_updates_lacks_nothing(lab: VerifiedSinks, sink: str, keys: dict[str, str]) -> None:
    three_batches(lab, sink, **keys)
    lab.require_equal(sink, rows=5, **keys)


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_an_update_that_is_twice_in_a_log_without_rows_before_updates_is_found(
    lab: VerifiedSinks, sink: str, keys: dict[str, str]
) -> None:
    three_batches(lab, sink, **keys)
    messages = LOGS[""]._messages
    messages.append(next(each for each in messages if "UPDATE_AFTER" in str(each.value)))
    found = lab.verify(sink, **keys)
    assert found.code == 65
    assert "memory://log holds 2 changes of batch 1, but 1 were delivered" in found.err


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_a_key_is_missed_also_if_the_first_batch_has_updates(
    lab: VerifiedSinks, sink: str, keys: dict[str, str]
) -> None:
    keys = {**keys, "initial_load": "from_earliest"}
    lab.append(1, 2)
    lab.update(2, value=7.0)
    lab.deliver(sink, **keys)
    lab.append(5)
    lab.deliver(sink, **keys)
    remove_a_change(LOGS[""])
    found = lab.verify(sink, "--json", **keys)
    assert (found.code, found.document["keys"]) == (65, {"missing": ["id=5"]})


@pytest.mark.parametrize(("sink", "keys"), LOGS_WITHOUT_IMAGES)
def test_rows_whose_identity_is_not_shown_are_not_counted_without_all_images(
    lab: VerifiedSinks, sink: str, keys: dict[str, str]
) -> None:
    three_batches(lab, sink, columns=["value", "word"], **keys)
    found = lab.verify(sink, "--json", columns=["value", "word"], **keys)
    assert (found.code, found.err) == (0, "")
    [note] = found.document["notes"]
    assert note.startswith("rows without identity are compared only if the sink holds all changes")


@pytest.mark.parametrize("sink", ["index", "log"])
def test_rows_whose_identity_is_not_shown_are_counted(lab: VerifiedSinks, sink: str) -> None:
    three_batches(lab, sink, columns=["value"])
    lab.require_equal(sink, rows=5, columns=["value"])
    if sink == "index":
        live(INDICES[""]).popitem()
    else:
        LOGS[""]._messages.pop(1)
    found = lab.verify(sink, columns=["value"])
    assert found.code == (65 if sink == "index" else 0)


def test_batches_that_are_delivered_meanwhile_are_no_difference(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_batches(lab, "index")
    reads = []
    scan = MemoryIndex.scan

    def scan_after_a_batch(server: MemoryIndex, index: str) -> Any:
        if not reads:
            reads.append(index)
            lab.update(1, value=9.0)
            lab.append(60)
            lab.deliver("index")
        return scan(server, index)

    monkeypatch.setattr(MemoryIndex, "scan", scan_after_a_batch)
    found = lab.verify("index", "--json")
    assert (found.code, found.err) == (0, "")
    assert reads


def test_a_difference_stays_one_while_batches_are_delivered(
    lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch
) -> None:
    three_batches(lab, "index")
    scan = MemoryIndex.scan
    reads = []

    def scan_after_a_batch(server: MemoryIndex, index: str) -> Any:
        if not reads:
            reads.append(index)
            lab.update(1, value=9.0)
            lab.deliver("index")
            del live(server)["[4]"]
        return scan(server, index)

    monkeypatch.setattr(MemoryIndex, "scan", scan_after_a_batch)
    found = lab.verify("index", "--json")
    assert (found.code, found.document["keys"]) == (65, {"missing": ["id=4"]})


def test_rows_of_the_open_batch_are_no_difference(lab: VerifiedSinks, monkeypatch: pytest.MonkeyPatch) -> None:
    three_batches(lab, "index")
    lab.update(1, value=9.0)
    with monkeypatch.context() as patched:
        patched.setattr("icefloe.engines.run_batch.commit_batch", lambda *_, **__: pytest.fail("killed"))
        with pytest.raises(pytest.fail.Exception):
            lab.deliver("index")
    assert (live(INDICES[""])["[1]"].document or {})["value"] == 9.0
    found = lab.verify("index", "--json")
    assert (found.code, found.err) == (0, "")
