"""A storage, swept."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from icefloe.batch.run_settings import Credentials
from icefloe.batch.upkeep.survey import Survey, survey_storage
from icefloe.storage.location import open_store
from support.pipelines.workshop import Workshop

__all__ = ["DAY_SECONDS", "aged", "require_swept_anywhere", "survey_of", "swept"]

DAY_SECONDS = 86_400.0


def survey_of(storage: Path | str, **options: Any) -> Survey:
    """A survey that takes files for old after a day."""
    url = storage if isinstance(storage, str) else f"file://{storage}"
    given = {"older_than_seconds": DAY_SECONDS, "credentials": Credentials(), "environ": {}, **options}
    return survey_storage(url, **given)


def swept(storage: Path | str, **options: Any) -> int:
    """The number of files that a sweep without any problem deleted."""
    survey = survey_of(storage, **options)
    assert survey.problems == []
    deleted, problems = survey.delete()
    assert problems == ()
    return deleted


def aged(paths: Path | Iterable[Path], *, days: float = 2.0) -> None:
    """Makes files old, with all files below a folder."""
    for path in [paths] if isinstance(paths, Path) else paths:
        then = time.time() - days * DAY_SECONDS
        for each in [path, *path.rglob("*")]:
            os.utime(each, (then, then))


def require_swept_anywhere(workshop: Workshop, url: str) -> None:
    """A sweep of a pipeline at any store: a batch that ended, an open one, a stray file, and one of no batch.

    Args:
        workshop: an empty table.
        url: storage and sink are below it.
    """
    workshop.set(storage=f"{url}/storage", sink={"type": "files", "path": f"{url}/changes"})
    workshop.append(range(20))
    workshop.open().run_route().commit()
    workshop.append([30])
    opened = workshop.open().run_route()
    stray, unknown = "changes/batch=0/part-00099.parquet", f"{_below(opened.plan_url, url)}/7/0.0.ab.data"
    store = open_store(url)
    for key in (stray, unknown):
        store.put(key, b"of somebody")
    before = {each.key for each in store.list("")}
    assert swept(f"{url}/storage", environ={}) > 4
    gone = before - {each.key for each in store.list("")}
    assert stray in gone
    assert {key.rpartition("/")[0] for key in gone} == {"changes/batch=0", *_folders_of(gone, opened.plan_url, url)}
    # By the clock of the store everything is older than a minute from now.
    assert swept(f"{url}/storage", older_than_seconds=-60.0) == 1
    assert store.size(unknown) is None
    assert opened.deliver().batch.counts["insert"] == 1


def _below(plan_url: str, url: str) -> str:
    """Key of the folder of a checkpoint's batches."""
    return plan_url.removeprefix(f"{url}/").rsplit("/", 2)[0]


def _folders_of(keys: Iterable[str], plan_url: str, url: str) -> set[str]:
    """The folders of batch 0 among those of some keys."""
    batch = f"{_below(plan_url, url)}/0"
    return {key.rpartition("/")[0] for key in keys if key.startswith(f"{batch}/")}
