"""A folder with an Iceberg table on SQLite and a pipeline file, and the command line run on it."""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from icefloe.cli.command_line import main
from support.forked import forked
from support.tables.events import EventsTable, write_pipeline_file

__all__ = ["Outcome", "Workspace", "forked_module", "icefloe", "icefloe_process", "python"]

ROOT = Path(__file__).parents[3]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of a command."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The JSON object on the last line."""
        return json.loads(self.out.splitlines()[-1])

    @property
    def sentence(self) -> str:
        """The one line on standard error, without its prefix."""
        [line] = self.err.splitlines()
        assert line.startswith("icefloe: ")
        return line.removeprefix("icefloe: ")


def icefloe(*arguments: object) -> Outcome:
    """Runs a command in this process."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return Outcome(code=code, out=out.getvalue(), err=err.getvalue())


def icefloe_process(*arguments: object, **environ: Any) -> Outcome:
    """Runs a command in a process of its own."""
    return python(["-m", "icefloe", *map(str, arguments)], **environ)


def python(arguments: Sequence[str], *, timeout_seconds: float = 120, **environ: str) -> Outcome:
    """Runs Python with the library and the tests on its path."""
    path = os.pathsep.join([str(ROOT / "plugins"), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "PYTHONPATH": path, **environ}, capture_output=True, text=True, check=False,
        timeout=timeout_seconds,
    )  # fmt: skip
    return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


def forked_module(module: str, *arguments: object, **environ: str) -> Outcome:
    """Runs a module in a process of its own that need not import the library; see `support.forked`."""
    done = forked(module, list(map(str, arguments)), environ={**os.environ, **environ})
    return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


@dataclass(frozen=True, kw_only=True)
class Workspace(EventsTable):
    """The table ``db.events`` and the folders around it."""

    def pipeline(self, stem: str = "events", **keys: Any) -> Path:
        """Writes a pipeline file; storage and output have places of its own."""
        return write_pipeline_file(
            self.folder / f"{stem}.yaml",
            tables=self.folder,
            storage=self.storage(stem),
            output=self.output(stem),
            keys=keys,
        )

    def storage(self, stem: str = "events") -> Path:
        return self.folder / stem / "storage"

    def output(self, stem: str = "events") -> Path:
        return self.folder / stem / "changes"

    @property
    def metadata_file(self) -> Path:
        """The metadata of the last commit that was made here."""
        return Path(self.table.metadata_location.removeprefix("file://"))

    def metadata(self) -> Any:
        return json.loads(self.metadata_file.read_bytes())

    def append(self, *ids: int, value: float = 1.0) -> int:
        return self.add(ids, value=value)

    def update(self, *ids: int, value: float) -> int:
        """A copy-on-write update."""
        return self.change(ids, value=value)

    def delete(self, *ids: int) -> int:
        return self.remove(ids)

    def manifest(self, batch: int, stem: str = "events", *, below: str = "") -> dict[str, Any]:
        return json.loads((self.output(stem) / below / f"batch={batch}" / "_manifest.json").read_text())

    def delivered(self, batch: int, stem: str = "events") -> dict[str, list[dict[str, Any]]]:
        """The rows of each part that the manifest names."""
        folder = self.output(stem) / f"batch={batch}"
        names = [name for part in self.manifest(batch, stem)["parts"] for name in part["names"]]
        return {name: pq.ParquetFile(folder / name).read().to_pylist() for name in names}

    def files(self) -> set[Path]:
        """Everything in the folder."""
        return set(self.folder.rglob("*"))
