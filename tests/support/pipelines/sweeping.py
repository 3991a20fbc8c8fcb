"""A storage on local disk, swept."""

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from icefloe.batch.credentials import Credentials
from icefloe.batch.sweep.survey import Survey, survey_storage

__all__ = ["DAY_SECONDS", "aged", "survey_of", "swept"]

DAY_SECONDS = 86_400.0


def survey_of(storage: Path | str, **options: Any) -> Survey:
    """A survey that takes files for old after a day."""
    url = storage if isinstance(storage, str) else f"file://{storage}"
    given = {"older_than_seconds": DAY_SECONDS, "credentials": Credentials(), "environ": {}, **options}
    return survey_storage(url, **given)


def swept(storage: Path | str, **options: Any) -> int:
    """The number of files that a sweep without any problem deleted."""
    survey = survey_of(storage, **options)
    assert survey.problems == ()
    deleted, problems = survey.delete()
    assert problems == ()
    return deleted


def aged(paths: Path | Iterable[Path], *, days: float = 2.0) -> None:
    """Makes files old, with all files below a folder."""
    for path in [paths] if isinstance(paths, Path) else paths:
        then = time.time() - days * DAY_SECONDS
        for each in [path, *path.rglob("*")]:
            os.utime(each, (then, then))
