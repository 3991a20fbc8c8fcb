"""The files below ``shuffle/``, counted by the checkpoint and the batch that they are of."""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from icefloe.storage.probe import CLOCK_FOLDER, PROBE
from icefloe.storage.store import Store, StoredObject

_NAME: Final = r"(?P<pipeline>[A-Za-z0-9_-]+)"
_FILE: Final = re.compile(rf"{_NAME}/(?P<checkpoint_id>[0-9a-f]{{32}})/(?P<entry>[^/]+)(/.*)?", re.DOTALL)
_TRIAL: Final = re.compile(rf"{re.escape(CLOCK_FOLDER)}/.*|[^/]+/{PROBE}[^/]*", re.DOTALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder below ``shuffle/`` whose files are of one checkpoint of a pipeline."""

    pipeline: str
    checkpoint_id: str

    @property
    def key(self) -> str:
        """The folder below ``shuffle/``."""
        return f"{self.pipeline}/{self.checkpoint_id}"


@dataclass(slots=True, kw_only=True)
class Counted:
    """The files under one name in a folder: those of a batch, or one file.

    Attributes:
        old_objects: files that were written before the cutoff; ``old_bytes`` are their bytes.
        is_file: true if the name itself is a file.
    """

    objects: int = 0
    size_bytes: int = 0
    old_objects: int = 0
    old_bytes: int = 0
    is_file: bool = False

    def add(self, stored: StoredObject, cutoff: datetime, *, is_file: bool) -> None:
        """Counts one file."""
        is_old = stored.modified < cutoff
        self.objects += 1
        self.size_bytes += stored.size_bytes
        self.old_objects += is_old
        self.old_bytes += stored.size_bytes * is_old
        self.is_file = is_file


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffleListing:
    """One listing. It holds a line for each batch, not for each file, because a dead batch may have millions.

    Attributes:
        folders: by name in the folder; the name of a batch is its number.
        trials: old files that tried the store or asked for its time.
        foreign_objects: files that icefloe does not make.
    """

    folders: Mapping[Folder, Mapping[str, Counted]]
    trials: tuple[StoredObject, ...]
    foreign_objects: int


def list_shuffle(shuffle: Store, cutoff: datetime) -> ShuffleListing:
    """Counts everything below ``shuffle/`` of a storage.

    Args:
        shuffle: the folder ``shuffle/``.
        cutoff: a time of the store's clock; files that were written before it are old.
    """
    folders: defaultdict[Folder, dict[str, Counted]] = defaultdict(dict)
    trials, foreign_objects = [], 0
    for stored in shuffle.list(""):
        match = _FILE.fullmatch(stored.key)
        if match is not None:
            parts = match.groupdict()
            entry = parts.pop("entry")
            counted = folders[Folder(**parts)].setdefault(entry, Counted())
            counted.add(stored, cutoff, is_file=stored.key.endswith(f"/{entry}"))
        elif _TRIAL.fullmatch(stored.key) is None:
            foreign_objects += 1
        elif stored.modified < cutoff:
            trials.append(stored)
    return ShuffleListing(folders=folders, trials=tuple(trials), foreign_objects=foreign_objects)
