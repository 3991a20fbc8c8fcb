"""`icefloe verify` compares what a sink really holds with the table."""

from pathlib import Path

import pytest

from batch.verify.verified_sinks import VerifiedSinks, live
from icefloe.sinks.sink import Sink
from sinks.opensearch.sinks import sink_at
from support.pipelines.workspace import icefloe
from support.sinks.fake_cluster import FakeCluster
from support.sinks.memory_index import Stored
from support.sinks.registered import INDICES, LOGS, registered_sinks
from support.tables.events import rows

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("sink", ["index", "log"])
def test_a_sink_that_got_every_change_is_equal(lab: VerifiedSinks, sink: str) -> None:
    assert "no batch is delivered yet" in lab.verify(sink).out
    lab.deliver_three_batches(sink)
    lab.require_equal(sink, rows=5)


def test_a_sink_is_not_read_before_its_first_batch_if_the_cursor_of_a_new_pipeline_was_set(lab: VerifiedSinks) -> None:
    lab.append(1, 2)
    pipeline = lab.pipeline(sink=lab.sink("index"), engine="local")
    assert icefloe("set-cursor", pipeline, "--snapshot-id", lab.head(), "--yes").code == 0
    found = lab.verify("index", "--json")
    assert (found.code, found.document["notes"]) == (0, ["no batch is delivered yet"])


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


def test_rows_that_differ_are_named(lab: VerifiedSinks) -> None:
    lab.deliver_three_batches("index")
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


def test_documents_that_another_program_wrote_fail_a_batch_until_a_load_replaces_them(tmp_path: Path) -> None:
    cluster = FakeCluster()
    with registered_sinks(search=lambda _: sink_at(cluster)):
        lab = VerifiedSinks.create(tmp_path)
        lab.append(1, 2, 3)
        lab.deliver("search")
        lab.require_equal("search", rows=3)
        cluster.update_by_query("people")
        lab.require_equal("search", rows=3)
        lab.update(2, value=7.0)
        pipeline = lab.pipeline(sink=lab.sink("search"), engine="local")
        failed = icefloe("run", pipeline)
        assert failed.code == 65
        assert "another program wrote or deleted document 1:2" in failed.sentence
        assert icefloe("reset", pipeline, "--yes").code == 0
        lab.deliver("search")
        lab.require_equal("search", rows=3)


def test_a_pipeline_without_a_load_is_compared_by_the_keys_that_changed(lab: VerifiedSinks) -> None:
    lab.append(1, 2)
    lab.deliver("index", initial_load="from_now")
    lab.update(2, value=5.0)
    lab.deliver("index", initial_load="from_now")
    found = lab.verify("index", "--json", initial_load="from_now")
    assert (found.code, found.document["counts"], found.document["rows"]) == (0, {}, 1)
    assert found.document["notes"] == ["1 keys of db.events have no change in memory://index, and were not compared"]


@pytest.mark.parametrize("sink", ["index", "log"])
def test_rows_whose_identity_is_not_shown_are_counted(lab: VerifiedSinks, sink: str) -> None:
    lab.deliver_three_batches(sink, columns=["value"])
    lab.require_equal(sink, rows=5, columns=["value"])
    if sink == "index":
        live(INDICES[""]).popitem()
    else:
        LOGS[""]._messages.pop(1)
    found = lab.verify(sink, columns=["value"])
    assert found.code == (65 if sink == "index" else 0)


@pytest.mark.parametrize("sink", ["index", "log"])
@pytest.mark.parametrize("is_fault", [True, False])
def test_keys_with_several_rows_are_a_fault_of_a_sink_that_wants_none(
    lab: VerifiedSinks, sink: str, is_fault: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sink, "wants_unique_keys", is_fault)
    lab.append(1, 2, 3)
    lab.deliver(sink)
    lab.append(3)
    lab.deliver(sink)
    found = lab.verify(sink)
    assert found.code == (65 if is_fault else 0)
    assert ("shows one row per key: id=3; correct the table" in found.err) == is_fault
    assert ("1 keys of db.events have several rows; any of them is right" in found.out) != is_fault


@pytest.mark.parametrize("name", ["key", "row", "place", "is_live", "kind"])
def test_a_key_may_have_the_name_of_a_column_of_the_comparison(lab: VerifiedSinks, name: str) -> None:
    with lab.table.update_schema() as update:
        update.rename_column("id", name)
    lab.table.append(rows((1, 2)).rename_columns([name, "value", "word"]))
    keys = {"identifier_columns": [name]}
    lab.deliver("index", **keys)
    lab.require_equal("index", rows=2, **keys)
    del live(INDICES[""])["[1]"]
    found = lab.verify("index", "--json", **keys)
    assert (found.code, found.document["keys"]) == (65, {"missing": [f"{name}=1"]})
