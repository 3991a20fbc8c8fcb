"""A file of the files sink that is lost before its batch has a manifest is delivered again by the next run."""

from pathlib import Path

import pytest

from icefloe.batch.deliver.deliver_batch import DeliveryRecords
from icefloe.errors import TransientError
from icefloe.sinks.change_files import ChangeFiles, FilesDelivery
from icefloe.sinks.manifest import part_name
from sinks.written_parts import DAMAGES
from support.pipelines.workspace import Outcome, Workspace, icefloe

MODES = pytest.mark.parametrize("changes", ["upsert", "append_only"])
SIZES = pytest.mark.parametrize("damage", ["deleted", "emptied", "longer"])
"""What a file's size shows. Other bytes of the same number are found by `icefloe verify`."""


class Reduced(Workspace):
    """A pipeline whose files have reduced changes, with three parts in its only batch."""

    def command(self, name: str, *arguments: object, changes: str) -> Outcome:
        return icefloe(name, self.file(changes), *arguments)

    def file(self, changes: str) -> Path:
        sink = {"type": "files", "path": self.target.as_uri()}
        return self.pipeline(sink=sink, engine="local", changes=changes, shuffle={"map_task_bytes": 1})

    @property
    def target(self) -> Path:
        return self.folder / "reduced"

    def part(self, number: int) -> Path:
        return self.target / "batch=0" / f"part-{number:05d}.parquet"

    def require_whole(self, changes: str) -> None:
        done = self.command("run", changes=changes)
        assert done.code == 0, done.err
        found = self.command("verify", "--json", changes=changes)
        assert (found.code, found.document["is_equal"], found.document["rows"]) == (0, True, 3)


@pytest.fixture
def lab(tmp_path: Path) -> Reduced:
    made = Reduced.create(tmp_path)
    for number in (1, 2, 3):
        made.append(number)
    return made


def stop_before_manifest(lab: Reduced, changes: str) -> None:
    """A run that dies when all parts are delivered."""
    stop_at(FilesDelivery, "finish", lab, changes)
    assert len(list(lab.target.glob("batch=0/*"))) == 3


def stop_after_manifest(lab: Reduced, changes: str) -> None:
    """A run that dies before it records that its manifest is written."""
    stop_at(DeliveryRecords, "create_batch", lab, changes)
    assert len(list(lab.target.glob("batch=0/*"))) == 4


def stop_at(kind: type, call: str, lab: Reduced, changes: str) -> None:
    def fail(*_: object) -> None:
        raise TransientError("the run died")

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(kind, call, fail)
        assert lab.command("run", changes=changes).code == 75


@MODES
@SIZES
def test_a_part_that_is_damaged_before_the_manifest_is_delivered_again_by_the_next_run(
    lab: Reduced, changes: str, damage: str
) -> None:
    stop_before_manifest(lab, changes)
    kept = {number: lab.part(number).read_bytes() for number in (0, 2)}
    DAMAGES[damage](lab.part(1))
    lab.require_whole(changes)
    assert {number: lab.part(number).read_bytes() for number in (0, 2)} == kept


def test_a_lost_part_that_a_manifest_names_is_restored_while_its_batch_is_open(lab: Reduced) -> None:
    stop_after_manifest(lab, "upsert")
    data = lab.part(1).read_bytes()
    lab.part(1).unlink()
    lab.require_whole("upsert")
    assert lab.part(1).read_bytes() == data


def test_a_part_that_is_lost_again_and_again_is_delivered_once_more_in_each_run(
    lab: Reduced, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def lose(_: ChangeFiles, batch_number: int, number: int, place: int, file: Path, _below: str) -> tuple[str, int]:
        written.append(number)
        return part_name(number, place), file.stat().st_size

    stop_before_manifest(lab, "upsert")
    lab.part(1).unlink()
    with monkeypatch.context() as patched:
        patched.setattr(ChangeFiles, "_put", lose)
        for tries in (1, 2):
            failed = lab.command("run", changes="upsert")
            assert (failed.code, "1 of 3 parts in" in failed.err) == (75, True)
            assert written == [1] * tries
    lab.require_whole("upsert")
