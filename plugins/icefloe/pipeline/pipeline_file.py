"""Pipeline files: found by name, loaded and checked."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Final

from icefloe.errors import TerminalError, UsageError
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.problems import PipelineFileError, Problem
from icefloe.pipeline.yaml_file import YamlFile, load_yaml

__all__ = ["find_pipeline", "load_pipeline", "pipeline_paths", "refuse_taken_name", "with_sink_of"]

PIPELINES_FOLDER: Final = Path("dags/pipelines")
"""Folder of the pipeline files, below the folder that Airflow or the command line runs in."""

_SUFFIXES: Final = (".yaml", ".yml")


def load_pipeline(path: str | Path, *, environ: Mapping[str, str] | None = None) -> Pipeline:
    """The pipeline of a file.

    Args:
        path: the YAML file.
        environ: resolves ``${NAME}`` at once, as ``Pipeline.expanded`` does later; None leaves such values as written.

    Raises:
        PipelineFileError: the file cannot be read or used; its ``problems`` are all its faults, in line order.
    """
    return Pipeline.of(load_yaml(path), environ)


def with_sink_of(pipeline: Pipeline, path: str | Path, *, environ: Mapping[str, str] | None = None) -> Pipeline:
    """A pipeline with the sink that another file describes under ``sink``; other keys of that file do not count.

    Args:
        pipeline: the pipeline.
        path: a pipeline file, or a YAML file with the key ``sink`` alone.
        environ: resolves ``${NAME}`` in both.

    Raises:
        PipelineFileError: the file cannot be read, has no sink, or has one that cannot be used.
    """
    file = load_yaml(path)
    if not isinstance(file.data, dict) or "sink" not in file.data:
        problem = Problem(line=1, key="sink", sentence="the key sink is missing: add the sink that takes the batches")
        raise PipelineFileError.of(str(path), [problem])
    kept = {key: value for key, value in pipeline.file.data.items() if key != "changelog"}
    data = {**kept, "name": pipeline.name, "sink": file.data["sink"]}
    return Pipeline.of(YamlFile(path=str(path), data=data, lines=file.lines, problems=file.problems), environ)


def pipeline_paths(folder: Path = PIPELINES_FOLDER) -> list[Path]:
    """The pipeline files of a folder, sorted by name; a missing folder holds none."""
    return sorted(path for suffix in _SUFFIXES for path in folder.glob(f"*{suffix}") if path.is_file())


def find_pipeline(name_or_path: str | Path, folder: Path = PIPELINES_FOLDER) -> Path:
    """The file of a pipeline that is named by its path, its stem or its ``name``.

    A stem and a name weigh the same: who names a pipeline to `reset` may think of either.

    Raises:
        UsageError: there is none, and the sentence names the nearest; or there are several, and it names them.
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
            raise UsageError(_unknown(text, folder, set().union(*names.values())), pipeline=text, folder=str(folder))
        case several:
            raise UsageError(
                f"{text!r} may mean {' or '.join(map(str, several))}: give the path of the one that you mean",
                pipeline=text,
                folder=str(folder),
            )


def refuse_taken_name(path: Path, name: str) -> None:
    """Passes a pipeline whose name no other file of its folder has: checkpoint and DAG id follow from it.

    Raises:
        TerminalError: another file has it; the sentence names both.
    """
    for other in pipeline_paths(path.parent):
        if not other.samefile(path) and _name(other) == name:
            raise TerminalError(
                f"{path} and {other} are both called {name!r}, so they would share one checkpoint and one DAG id: give "
                "each a `name` of its own",
                name=name,
                path=str(path),
                other=str(other),
            )


def _name(path: Path) -> str:
    try:
        return str(load_yaml(path).data["name"])
    except (PipelineFileError, KeyError, TypeError):
        return path.stem  # a file that cannot be read keeps its stem, and shows its fault when it is loaded


def _unknown(text: str, folder: Path, names: Collection[str]) -> str:
    import difflib

    nearest = difflib.get_close_matches(text, names, n=1, cutoff=0.0)
    hint = f"the nearest is {nearest[0]!r}" if nearest else "there are no .yaml files in it"
    return f"there is no pipeline {text!r} in {folder}: {hint}; give a name in that folder or a path"
