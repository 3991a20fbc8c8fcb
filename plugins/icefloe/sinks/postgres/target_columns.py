"""Columns of a target that follow the columns of the source: by field id where ids are known."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from icefloe.errors import TerminalError

_WIDER: Final = {
    ("integer", "bigint"), ("real", "double precision"), ("date", "timestamp without time zone")
}  # fmt: skip
_MOST_NAME_BYTES: Final = 63


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnChanges:
    """Changes that a target needs before rows come."""

    renamed: Mapping[str, str]  # present names and new names
    added: Mapping[str, str]  # types by name
    widened: Mapping[str, str]  # types by new name
    dropped: tuple[str, ...]  # columns that came from the source, which has them no longer
    fields: Mapping[int, str]  # dotted names in the target by field id; a negative one is no longer the source's


def column_changes(
    held: Mapping[str, str],  # types by name
    wanted: Mapping[str, str],
    field_ids: Mapping[str, int],  # of the source by dotted name; empty: columns are taken by name
    fields: Mapping[int, str],  # as the batch before left them
    *,
    # False if all rows are replaced: columns are taken by name, because the source may have been made again.
    keeps_rows: bool = True,
    keys: Collection[str] = (),  # columns that cannot make room
    place: str,
) -> ColumnChanges:
    """The changes that rows with the wanted columns need; docs/sinks/postgres.md has the table of them."""
    for name in wanted:
        if len(name.encode()) > _MOST_NAME_BYTES or "\0" in name:
            raise TerminalError(
                f"column {name[:80]!r} has a longer name than the {_MOST_NAME_BYTES} bytes of PostgreSQL, or a NUL in "
                "it: rename it, or leave it out of `columns`"
            )
    now = {field_id: name for name, field_id in field_ids.items()}
    columns = {field_id: name for field_id, name in fields.items() if name in held}
    for field_id in fields.keys() - columns.keys() if keeps_rows else ():
        if now.get(field_id) in wanted:
            # Added anew, it would be null in all rows that no batch touches.
            raise TerminalError(
                f"{place} has no column {fields[field_id]} any more, which earlier batches filled: give it its name "
                "back, or run `icefloe reset` for the pipeline, which loads the table again"
            )
    renamed, dropped, left = dict[str, str](), list[str](), dict[int, str]()
    used = {*held, *wanted}
    if not keeps_rows:
        # Of ours, one of another type makes room, as one that was dropped does.
        for field_id, name in columns.items():
            if name in wanted and name not in keys and not _fits(held[name], wanted[name]):
                renamed[name] = _free(name, field_id, used)
        dropped = [*renamed.values()]
        left = _left({each: renamed.get(name, name) for each, name in columns.items()}, now.values())
        fields = columns = {}
    for field_id, name in columns.items() if now else ():
        new = now.get(field_id)
        if new is None:
            new = _free(name, field_id, used) if name in wanted else name
            dropped.append(new)
        if new != name:
            renamed[name] = new
    inside = _inside(fields, columns.keys()) if keeps_rows else {}
    ids = {path: field_id for field_id, path in inside.items()}
    tops = columns.keys() | {field_id for field_id, name in now.items() if name in wanted}
    for field_id, path in _inside(now, tops).items():
        if inside.get(field_id, path) != path or ids.get(path, field_id) != field_id:
            raise TerminalError(
                f"the field {now[field_id]} was renamed or replaced inside its column, and earlier rows of {place} "
                "have the old name in their JSON: run `icefloe reset` for the pipeline"
            )
    for name in wanted if fields else ():
        if name in held and name not in columns.values() and field_ids.get(name, name) not in {*fields, name}:
            # Of rows that no batch touches it would have values that the source does not have.
            raise TerminalError(
                f"{place} has a column {name}, which no batch has filled, and the source has a new one of that name: "
                "rename the one in the target, or leave the new one out of `columns`"
            )
    present = {renamed.get(name, name): kind for name, kind in held.items()}
    widened = {}
    for name, kind in wanted.items():
        before = present.get(name, kind)
        if before == kind or _is_wider(kind, before):
            continue
        if not _fits(before, kind):
            raise TerminalError(
                f"column {name} of {place} has the type {before}, and the source needs {kind}: change the column "
                "there, or leave it out of `columns`, or name another sink.table"
            )
        widened[name] = kind
    kept = {field_id: renamed.get(name, name) for field_id, name in fields.items()}
    for field_id, (column, rest) in inside.items():
        kept[field_id] = f"{kept[column]}.{rest}"
    # The name of a dropped column may be another one's by now.
    taken = set(now.values())
    kept = {field_id: name for field_id, name in kept.items() if field_id in now or name not in taken}
    return ColumnChanges(
        renamed=renamed,
        added={name: kind for name, kind in wanted.items() if name not in present},
        widened=widened,
        dropped=tuple(dropped),
        fields={**left, **kept, **now},
    )


def _free(name: str, field_id: int, used: set[str]) -> str:
    """``<name>_<its field id>``, or with a number more if that is used, cut to the bytes of a name."""
    for number in count():
        end = f"_{abs(field_id)}" + (f"_{number}" if number else "")
        new = name.encode()[: _MOST_NAME_BYTES - len(end)].decode(errors="ignore") + end
        if new not in used:
            break
    used.add(new)
    return new


def _left(fields: Mapping[int, str], taken: Collection[str]) -> dict[int, str]:
    """Columns that make room for one of the source that may come."""
    found = dict[int, str]()
    for field_id, name in fields.items():
        if name not in taken:
            found[min([-abs(field_id), *(key - 1 for key in found)])] = name
    return found


def _fits(before: str, after: str) -> bool:
    """True if a column of one of the types can have the other one."""
    return before == after or _is_wider(before, after) or _is_wider(after, before)


def _is_wider(before: str, after: str) -> bool:
    """True if each value of the first type is one of the second, as Iceberg promotes types."""
    narrow, wide = (re.fullmatch(r"numeric(?:\((\d+),(\d+)\))?", kind) for kind in (before, after))
    if narrow and wide:
        return wide[1] is None or (narrow[2] == wide[2] and int(narrow[1] or 0) < int(wide[1]))
    return (before, after) in _WIDER


def _inside(names: Mapping[int, str], columns: Collection[int]) -> dict[int, tuple[int, str]]:
    """Of nested fields the id of their column, and the rest of the name."""
    tops = sorted((f"{names[column]}.", column) for column in names.keys() & columns)
    found = dict[int, tuple[int, str]]()
    for field_id, name in names.items():
        # Of the columns x and x.y, the later one has x.y.z: a name may have dots itself.
        around = [(top, column) for top, column in tops if f"{name}.".startswith(top)]
        if around and around[-1][1] != field_id:
            top, column = around[-1]
            found[field_id] = (column, name.removeprefix(top))
    return found
