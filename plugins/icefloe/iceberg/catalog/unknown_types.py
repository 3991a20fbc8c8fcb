"""Types that PyIceberg does not know, found in the error with which it refuses to load the table."""

from dataclasses import dataclass
from typing import Final

from pydantic import ValidationError

_TYPE_KEYS: Final = {"type", "element", "key", "value"}


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownColumnType:
    """A type of a table's metadata.

    Attributes:
        type: as the metadata names it.
        schema_index: number of the table's schema, from 0.
        column_index: number of its top-level column, from 0; the type may be nested in the column.
    """

    type: str
    schema_index: int
    column_index: int


def unknown_column_type(error: BaseException) -> UnknownColumnType | None:
    """The first unknown type that an error of loading a table reports; None if the error has other reasons.

    Args:
        error: PyIceberg's; pydantic's, or caused by one.
    """
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ValidationError):
        cause = cause.__cause__
    for each in [] if cause is None else cause.errors(include_url=False):
        location = list(each["loc"])
        if "schemas" not in location or location[-1] not in _TYPE_KEYS or not isinstance(each["input"], str):
            continue
        match location[location.index("schemas") + 1 :]:
            case [int(schema), "fields", int(column), *_]:
                return UnknownColumnType(type=each["input"], schema_index=schema, column_index=column)
    return None
