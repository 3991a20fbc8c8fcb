"""Documents of this release hold only what release 70b12fe knows, so that it can be run again when no batch is open.

Its readers refuse every key and value that they do not know. release-70b12fe.json lists what they know. At the plan of
an open batch, and at its commit records, it stops.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from icefloe.batch.open.requested_range import RequestedRange
from icefloe.batch.status.publish_status import publish_status
from support.pipelines.workshop import OpenBatch, Workshop

KNOWN: Final = json.loads((Path(__file__).parent / "release-70b12fe.json").read_text())
KINDS: Final = {
    r".*/pipeline\.json": "PipelineRecord",
    r".*/owners/\d+\.json": "OwnerRecord",
    r".*/offsets/\d+\.json": "OffsetRecord",
    r".*/commits/\d+\.json": "CommitRecord",
    r".*/reports/\d+\.json": "BatchReport",
    r".*/status\.json": "PipelineStatus",
    r".*/\d+/plan\.json": "Plan",
    r".*/\d+/\d+\.\d+": "MapOutputRecord",
    r".*/ranges\.json": "CoalescePlan",
    r".*/results/\d+\.json": "RangeResult",
    r".*/phases/(plan|insert_only|shuffle_write|coalesce|shuffle_read|commit)\.json": "PhaseRecord",
    r".*/_manifest\.json": "Manifest",
    r".*/_icefloe\.json": "SinkClaim",
}
NOT_READ: Final = re.compile(r".*/_checkpoint\.json|.*/tasks/[^/]+\.json|.*\.(parquet|data|index|block|extents)")
"""Files of rows, and what a release that does not know it never looks for: a folder's marker, extents, and map tasks.

It finds no map tasks because it stops at their plan.
"""
REFUSED: Final = {"Plan": 3, "MapOutputRecord": 6}
"""Versions of documents in the folder of an open batch that the release does not know."""


def unknown(document: Any, known: Any, place: str) -> Iterator[str]:
    """The keys and values of a document that the release does not know."""
    if isinstance(document, list):
        for each in document:
            yield from unknown(each, known, place)
    elif isinstance(document, dict) and isinstance(known, dict):
        for key, value in document.items():
            if key in known or "*" in known:
                yield from unknown(value, known.get(key, known.get("*")), f"{place}.{key}")
            else:
                yield f"{place} has the key {key}"
    elif isinstance(known, list) and document is not None and document not in known:
        yield f"{place} is {document}"


def faults(workshop: Workshop, seen: set[str]) -> Iterator[str]:
    """Keys and values in the documents of a workshop that the release does not know; notes the kinds of documents."""
    files = [path for folder in ("storage", "changes") for path in (workshop.folder / folder).rglob("*")]
    for path in [str(path) for path in files if path.is_file()]:
        [*kinds] = {kind for pattern, kind in KINDS.items() if re.fullmatch(pattern, path)}
        if NOT_READ.fullmatch(path):
            continue
        if not kinds:
            yield f"{path} is of no known kind"
            continue
        [kind] = kinds
        seen.add(kind)
        document = json.loads(Path(path).read_bytes())
        if document["version"] == REFUSED.get(kind) and document["version"] not in KNOWN[kind]["version"]:
            continue
        yield from unknown(document, KNOWN[kind], f"{kind} {path}")


def whole(batch: OpenBatch) -> None:
    """Delivers a batch and leaves the files between its phases."""
    batch.run_route().commit()


def test_every_document_at_default_options_holds_only_what_the_release_knows(workshop: Workshop) -> None:
    head = workshop.append(range(20))
    whole(workshop.open())
    workshop.update([1, 2], value=2.0)
    workshop.delete([3])
    whole(workshop.open(RequestedRange(after_snapshot_id=head)))
    whole(workshop.open())
    publish_status(workshop.session(), phase="commit")
    seen: set[str] = set()
    assert list(faults(workshop, seen)) == []
    assert seen == set(KINDS.values())


def test_a_load_in_parts_and_a_reload_hold_only_what_the_release_knows(workshop: Workshop) -> None:
    workshop.set(max_bytes_per_batch=1, on_gap="reload")
    first = workshop.append(range(10))
    workshop.append(range(10, 20))
    whole(workshop.open())
    whole(workshop.open())
    second = workshop.append([30])
    workshop.append([31])
    workshop.table.maintenance.expire_snapshots().by_ids([first, second]).commit()
    whole(workshop.open())
    assert list(faults(workshop, set())) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"version": 3}, "OwnerRecord.version is 3"),
        ({"writer": {"host": "a"}}, "OwnerRecord.writer has the key host"),
        ({"writer": [{"owner": "a"}], "number": 7}, None),
    ],
)
def test_a_key_or_a_version_that_is_new_is_found(document: Any, said: str | None) -> None:
    assert list(unknown(document, KNOWN["OwnerRecord"], "OwnerRecord")) == ([] if said is None else [said])
