"""Pipeline files: found, loaded, and checked."""

import difflib
import json
from collections.abc import Collection, Iterator, Mapping
from itertools import permutations
from pathlib import Path
from typing import Final

from icefloe.errors import NotBuiltError, TerminalError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.settings import OUR_SINKS, find_sink
from icefloe.pipeline.url import place_parts, url_below
from icefloe.pipeline.yaml_file import load_yaml

__all__ = ["check_name", "check_pipeline", "find_pipeline", "pipeline_paths"]

PIPELINES_FOLDER: Final = Path("dags/pipelines")
"""Folder of the pipeline files, below the folder that Airflow or the command line runs in."""

_SUFFIXES: Final = (".yaml", ".yml")


def pipeline_paths(folder: Path = PIPELINES_FOLDER) -> list[Path]:
    """The pipeline files of a folder, by name; none if it is missing."""
    return sorted(path for suffix in _SUFFIXES for path in folder.glob(f"*{suffix}") if path.is_file())


def find_pipeline(name_or_path: str | Path, folder: Path = PIPELINES_FOLDER) -> Path:
    """The file of a pipeline, by its path, its stem or its ``name``.

    A stem and a name weigh the same: a command such as `reset` may mean either. The error names the nearest, or all of
    several.
    """
    text = str(name_or_path)
    if text.endswith(_SUFFIXES) or "/" in text:
        if Path(text).is_file():
            return Path(text)
        raise UsageError(f"there is no pipeline file {text}: check the path", pipeline=text)
    names = {path: {path.stem, _name(path)} for path in pipeline_paths(folder)}
    match [path for path in names if text in names[path]]:
        case [path]:
            return path
        case []:
            raise UsageError(_unknown(text, folder, set().union(*names.values())), pipeline=text)
        case several:
            raise UsageError(
                f"{text!r} may mean {' or '.join(map(str, several))}: give the path of the one that you mean",
                pipeline=text,
            )


def check_name(path: Path) -> None:
    """Refuses a name that another file of the folder has: it decides checkpoint and DAG id."""
    for other in pipeline_paths(path.parent):
        if _name(other) == _name(path) and not other.samefile(path):
            raise TerminalError(
                f"{path} and {other} are both called {_name(path)!r}, so they would share one checkpoint and one DAG "
                "id: give each a `name` of its own"
            )


def _name(path: Path) -> str:
    try:
        return str(load_yaml(path).data["name"])
    except (TerminalError, KeyError, TypeError):
        return path.stem  # a file that cannot be read keeps its stem, and shows its fault when it is loaded


def _unknown(text: str, folder: Path, names: Collection[str]) -> str:
    nearest = difflib.get_close_matches(text, names, n=1, cutoff=0.0)
    hint = f"the nearest is {nearest[0]!r}" if nearest else "there are no .yaml files in it"
    return f"there is no pipeline {text!r} in {folder}: {hint}; give a name in that folder or a path"


def check_pipeline(pipeline: Pipeline, table_location: str | None = None) -> None:
    """Refuses a pipeline that needs a later release, or one of whose places is inside another.

    Some processes delete all files in their place: shuffle folder, checkpoint, output, dead letters and, if its
    location is known, the table. Unexpanded values pass: call it again after ``expanded``.
    """
    sink = pipeline.sink
    with pipeline.with_lines():
        if sink.type != "files" and find_sink(sink.type) is None:
            advice = f"write one of {', '.join(OUR_SINKS)}, or install the package of the sink"
            raise NotBuiltError(
                f"sink.type is {json.dumps(sink.type)}, but a sink of this name is not built yet: {advice}",
                key="sink.type",
            )
        places = _places(pipeline, table_location) if pipeline.is_expanded else ()
        for one, other in permutations([(*place, place_parts(place[2])) for place in places], 2):
            if one[3][: len(other[3])] == other[3]:
                raise TerminalError(
                    f"{one[0]}, {one[2]}, is inside {other[0]}, {other[2]}: clearing the one, by cleanup after a batch "
                    "or Iceberg's removal of orphan files, would delete the other; give each a folder of its own, "
                    "neither inside the other", key=one[1] or other[1],
                )  # fmt: skip


def _places(pipeline: Pipeline, table_location: str | None) -> Iterator[tuple[str, str | None, str]]:
    is_set = pipeline.changelog is not None and pipeline.changelog.path is not None
    letters = pipeline.sink.options.get("dead_letters")
    # A sink of another package may use the key for something else.
    letters_path = letters.get("path") if isinstance(letters, Mapping) else None
    places = (
        ("sink.path", "sink", pipeline.sink.path),
        (
            "the place of staged batches",
            "changelog" if is_set else "storage",
            pipeline.changes_folder.path if pipeline.delivers else "",
        ),
        ("sink.dead_letters.path", "sink", letters_path if isinstance(letters_path, str) else ""),
        ("the checkpoint", "checkpoint" if pipeline.checkpoint else "storage", pipeline.checkpoint_url),
        ("the shuffle folder", "storage", url_below(pipeline.storage, "shuffle")),
        (f"the location of table {pipeline.table}", None, table_location or ""),
    )
    return (place for place in places if place[2] and not place[2].startswith("dynamodb://"))
