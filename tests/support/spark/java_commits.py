"""Commits that only Iceberg's Java API can make, each one call; `java_writers` makes the files they take."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

__all__ = ["JavaCommits", "JavaTransaction"]


class JavaCommits(ABC):
    """One method per kind of commit; each returns the id of the snapshot it made.

    Files are what `JavaWriters` returns: Java's DataFile and DeleteFile. Every method takes ``branch`` (default: main)
    and ``summary`` (further summary properties).
    """

    @abstractmethod
    def updates(self) -> Any:
        """The Java object with ``newAppend`` and the like: a table or a transaction."""

    @abstractmethod
    def state(self) -> Any:
        """Java's table as the next commit finds it."""

    def append(self, files: Iterable[Any], **options: Any) -> int:
        """Append data files: operation append."""
        update = self.updates().newAppend()
        for file in files:
            update.appendFile(file)
        return _commit(update, **options)

    def row_delta(
        self,
        *,
        rows: Iterable[Any] = (),
        deletes: Iterable[Any] = (),
        removed_deletes: Iterable[Any] = (),
        **options: Any,
    ) -> int:
        """Add data and delete files in one commit, and remove delete files that the added ones replace."""
        update = self.updates().newRowDelta()
        for method, files in (
            (update.addRows, rows),
            (update.addDeletes, deletes),
            (update.removeDeletes, removed_deletes),
        ):
            for file in files:
                method(file)
        return _commit(self._on_head(update, options), **options)

    def overwrite(self, *, removed: Iterable[Any] = (), added: Iterable[Any] = (), **options: Any) -> int:
        """Replace data files: operation overwrite."""
        update = self.updates().newOverwrite()
        for file in removed:
            update.deleteFile(file)
        for file in added:
            update.addFile(file)
        return _commit(update, **options)

    def delete(self, files: Iterable[Any], **options: Any) -> int:
        """Remove data files: operation delete."""
        update = self.updates().newDelete()
        for file in files:
            update.deleteFile(file)
        return _commit(update, **options)

    def rewrite(
        self,
        *,
        removed: Iterable[Any] = (),
        added: Iterable[Any] = (),
        sequence_number: int | None = None,
        **options: Any,
    ) -> int:
        """Replace data and delete files by others of the same rows: operation replace.

        Args:
            removed: data files and delete files.
            added: data files and delete files.
            sequence_number: of the added files, so that later equality deletes still reach added data, and added
                equality deletes only what the removed ones reached; default: the commit's.
            options: see the class.
        """
        update = self.updates().newRewrite()
        for file in removed:
            update.deleteFile(file)
        for file in added:
            is_delete = file.content().name() != "DATA"
            update.addFile(*((file, sequence_number) if is_delete and sequence_number is not None else (file,)))
        if sequence_number is not None:
            update.dataSequenceNumber(sequence_number)
        return _commit(self._on_head(update, options), **options)

    @contextmanager
    def schema(self) -> Iterator[Any]:
        """Java's ``UpdateSchema``, committed at the end; `JavaWriters.type` makes its types."""
        update = self.updates().updateSchema()
        yield update
        update.commit()

    @contextmanager
    def spec(self) -> Iterator[Any]:
        """Java's ``UpdatePartitionSpec``, committed at the end; `JavaWriters.term` makes its terms."""
        update = self.updates().updateSpec()
        yield update
        update.commit()

    def manage(self, method: str, *arguments: Any) -> None:
        """One call of ``ManageSnapshots``, committed.

        They are rollbackTo, setCurrentSnapshot, cherrypick, createBranch, createTag, replaceBranch, replaceTag,
        removeBranch, removeTag, fastForwardBranch and renameBranch.
        """
        getattr(self.updates().manageSnapshots(), method)(*arguments).commit()

    def expire(self, *snapshot_ids: int, clean_files: bool = True) -> None:
        """Expire snapshots; with ``clean_files`` what only they needed is deleted."""
        update = self.updates().expireSnapshots().cleanExpiredFiles(clean_files)
        for snapshot_id in snapshot_ids:
            update.expireSnapshotId(snapshot_id)
        update.commit()

    def _on_head(self, update: Any, options: Mapping[str, Any]) -> Any:
        """The update, told that its writer has seen the branch's head: else all of history would be in conflict."""
        head = self.state().snapshot(options.get("branch") or "main")
        return update if head is None else update.validateFromSnapshot(head.snapshotId())


@dataclass(frozen=True, slots=True)
class JavaTransaction(JavaCommits):
    """The same commits, published together by one metadata commit."""

    transaction: Any

    def updates(self) -> Any:
        return self.transaction

    def state(self) -> Any:
        return self.transaction.table()


def _commit(update: Any, *, branch: str | None = None, summary: Mapping[str, str] | None = None) -> int:
    if branch:
        update.toBranch(branch)
    for key, value in (summary or {}).items():
        update.set(key, value)
    update.commit()
    return int(update.updateEvent().snapshotId())
