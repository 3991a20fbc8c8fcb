"""What the page of a DAG says."""

from pathlib import Path

from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import AssetSchedule

__all__ = ["backfill_page", "broken_page", "pipeline_page"]


def pipeline_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that follows the table."""
    return f"""Delivers the row-level changes of **{pipeline.table}** batch by batch, in the order of its commits.

{_facts(pipeline, path)}

A run resumes the batch that is open in the checkpoint, else it takes what the table gained since the last one. It takes
no configuration: a range is delivered by `{pipeline.name}__backfill`.
"""


def backfill_page(pipeline: Pipeline, path: Path) -> str:
    """The page of the DAG that delivers a range."""
    return f"""Delivers the row-level changes of a range of **{pipeline.table}** to a place of its own.

{_facts(pipeline, path)}

Start it by hand with a range: an `after_` bound (exclusive), an `up_to_` bound (inclusive) or both, as snapshot ids
or as timestamps with an offset. It moves no cursor and does not wait for `{pipeline.name}`.
"""


def broken_page(path: Path, sentence: str) -> str:
    """The page of a file that makes no DAG."""
    quoted = "\n".join(f"> {line}\n>" for line in sentence.splitlines())
    return f"**{path.name}** makes no DAG until it is corrected:\n\n{quoted}\n\nCheck: `icefloe validate {path.name}`\n"


def _facts(pipeline: Pipeline, path: Path) -> str:
    catalog = pipeline.catalog if isinstance(pipeline.catalog, str) else pipeline.catalog.get("name", "default")
    rows = {
        "Table": f"`{pipeline.table}`, branch `{pipeline.branch}`, catalog `{catalog}`",
        "Sink": f"{pipeline.sink.type}: `{pipeline.sink.path}`",
        "Schedule": f"`{_schedule(pipeline)}`",
        "Engine": pipeline.engine,
        "Storage": f"`{pipeline.storage}`",
        "Pipeline file": f"`{path.name}`",
    }
    return "\n".join(["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in rows.items())])


def _schedule(pipeline: Pipeline) -> str:
    schedule = pipeline.schedule
    return f"asset {schedule.asset}" if isinstance(schedule, AssetSchedule) else schedule or "by hand"
