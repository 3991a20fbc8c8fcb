"""The texts on the pages of DAGs and tasks."""

import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from icefloe.pipeline.model import Pipeline

_MARKDOWN: Final = re.compile(r"([\\`*_{}\[\]<>#|~])")

_CHANGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "each": "of each step",
        "net": "net, over each batch",
        "upsert": "net, over each batch, without the rows before updates",
        "append_only": "of each step, inserts alone",
    }
)
TASK_PAGES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "wait_for_snapshot": "Succeeds when a batch is open or the table has a new snapshot. Under `@continuous` it "
        "waits for one, *deferred*, for a day at most; under any other schedule it looks once.",
        "plan": "Resumes the open batch or opens the next one, and writes its plan. It returns the snapshots, the "
        "route and the number of map tasks.",
        "route": "`insert_only` if no row was removed, `shuffle_write` if one was, `nothing_to_do` if no data changed. "
        "The other routes are *skipped*.",
        "insert_only": "Reads the data files that were added and writes their rows to the sink. Nothing is shuffled.",
        "shuffle_write": "Reads the data files that were added and removed, cancels the rows that are in both, and "
        "writes the others by their identity. A retry redoes only map tasks without a valid record.",
        "coalesce": "Merges small neighbouring reduce partitions into ranges that are read together.",
        "shuffle_read": "Reads the output of shuffle_write, pairs updates and writes the changes to the sink. A retry "
        "redoes only the ranges that were not delivered.",
        "deliver": "Checks that no row was lost or made up, then delivers the staged batch to the sink, part by part. "
        "A retry delivers only the parts that are missing. A small batch needs no Spark application.",
        "nothing_to_do": "The table is as it was, or its commits changed no row.",
        "commit": "Checks that no row was lost or made up, then publishes the batch and moves the cursor. *Skipped* if "
        "there is no batch.",
        "cleanup": "Deletes the files that a committed batch passed between its tasks.",
    }
)
"""The page of each task, by task id."""


def pipeline_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that follows the table."""
    return f"""Delivers the row-level changes of **{pipeline.table}** batch by batch, in the order of its commits.

A run resumes the batch that is open in the checkpoint, otherwise it takes the commits since the last batch. It takes no
configuration: `{pipeline.name}__backfill` delivers a range. If a task fails, the `ERROR` line above the traceback in
its log names the fault and the way out. Then clear the task, or let the next run resume the batch.

{_facts(pipeline, path)}
"""


def backfill_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that delivers a range."""
    return f"""Delivers the row-level changes of a range of **{pipeline.table}** to a place of its own.

Start it by hand with a range: an `after_` bound (exclusive), an `up_to_` bound (inclusive) or both, as snapshot ids
or as timestamps with an offset. It moves no cursor and does not wait for `{pipeline.name}`. A range that was
delivered before is not delivered again: the `commit` of such a run is skipped.

{_facts(pipeline, path, below="/_backfills")}
"""


def broken_page(path: Path, sentence: str) -> str:
    """The page of a file that makes no DAG."""
    quoted = "\n".join(f"> {_escaped(line)}\n>" for line in sentence.split("\n"))
    return (
        f"**{path.name}** makes no DAG until it is corrected:\n\n{quoted}\n\nCheck it with `icefloe validate {path}`.\n"
    )


def _facts(pipeline: Pipeline, path: Path, *, below: str | None = None) -> str:
    catalog = pipeline.catalog if isinstance(pipeline.catalog, str) else pipeline.catalog.get("name", "default")
    rows = {
        "Table": f"`{pipeline.table}`, branch `{pipeline.branch}`, catalog `{catalog}`",
        "Changes": _CHANGES[pipeline.changes],
        "Sink": _sink_text(pipeline, below),
        "Schedule": "by hand" if below else f"`{_schedule(pipeline)}`",
        "Engine": pipeline.engine,
        "Storage": f"`{pipeline.storage}`",
        "Pipeline file": f"`{path.name}`",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _sink_text(pipeline: Pipeline, below: str | None) -> str:
    folder = f"`{pipeline.changes_folder.path}{below or ''}`"
    if not pipeline.delivers:
        return f"{pipeline.sink.type}: {folder}"
    return f"staged as files in {folder}" if below else f"{pipeline.sink.type}, staged as files in {folder}"


def _escaped(line: str) -> str:
    return _MARKDOWN.sub(r"\\\1", line)


def _schedule(pipeline: Pipeline) -> str:
    schedule = pipeline.schedule
    return schedule or "by hand" if schedule is None or isinstance(schedule, str) else f"asset {schedule.asset}"
