"""Pipelines for the tests of this folder, made from YAML as users write it."""

from pathlib import Path
from typing import Any

import yaml

from icefloe.batch.run_settings import RunSettings
from icefloe.pipeline.model import Pipeline
from icefloe.pipeline.yaml_file import YamlFile

__all__ = ["pipeline_from", "settings_at", "write_pipeline"]


def write_pipeline(folder: Path, stem: str = "flights", **keys: Any) -> Path:
    """A minimal pipeline file; keys that are given replace the minimal ones."""
    minimal = {
        "version": 1,
        "catalog": "lakehouse",
        "table": "nyc.flights",
        "storage": f"file://{folder}/storage",
        "sink": {"type": "files", "path": f"file://{folder}/changes"},
    }
    path = folder / f"{stem}.yaml"
    path.write_text(yaml.safe_dump({**minimal, **keys}))
    return path


def settings_at(checkpoint_url: str, **keys: Any) -> RunSettings:
    """Settings of a run whose pipeline has its checkpoint at a URL."""
    sink = {"type": "files", "path": f"{checkpoint_url}/changes"}
    minimal = {"version": 1, "catalog": "lakehouse", "table": "nyc.flights", "storage": checkpoint_url, "sink": sink}
    data = {**minimal, "checkpoint": checkpoint_url, **keys}
    return RunSettings(pipeline=Pipeline.of(YamlFile(path="flights.yaml", data=data, lines={}), {}))


def pipeline_from(folder: Path, stem: str = "flights", **keys: Any) -> Pipeline:
    """The pipeline of such a file."""
    return Pipeline.load(write_pipeline(folder, stem, **keys))
