"""Partitions of changed data files, with the names and values that Iceberg gives them."""

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote_plus

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.transforms import HourTransform, MonthTransform, Transform, VoidTransform, YearTransform
from pyiceberg.types import PrimitiveType

from icefloe.iceberg.data_file import Constant, constant_from_json
from icefloe.iceberg.manifests.manifest_reader import Partition
from icefloe.iceberg.schemas.arrow_columns import arrow_type

_Types = Sequence[PrimitiveType | None]
_UNITS: Final[Mapping[type[Transform[Any, Any]], Any]] = {YearTransform: "Y", MonthTransform: "M", HourTransform: "h"}


def partitions_table(
    found: Iterable[Partition], specs: Mapping[int, PartitionSpec], types: Mapping[int, _Types]
) -> pa.Table:
    """``spec_id``, ``partition`` (a struct of the fields of all these specs) and ``path``, in the order of both ids."""
    paths = {partition: _path(specs[partition[0]], types[partition[0]], partition[1]) for partition in found}
    partitions = sorted(paths, key=lambda partition: (partition[0], paths[partition]))
    known = {
        part.field_id: (part.name, kind)
        for spec_id in sorted({spec_id for spec_id, _ in partitions})
        for part, kind in zip(specs[spec_id].fields, types[spec_id], strict=True)
        if kind is not None
    }
    # A later spec may give the name of an earlier field to another one.
    taken = [name for name, _ in known.values()]
    names = {each: f"{name}_{each}" if taken.count(name) > 1 else name for each, (name, _) in known.items()}
    fields = {each: pa.field(names[each], _storage(kind)) for each, (_, kind) in known.items()}
    structs = [
        {
            names[part.field_id]: constant_from_json(known[part.field_id][1], value)
            for part, value in zip(specs[spec_id].fields, values, strict=True)
            if part.field_id in known
        }
        for spec_id, values in partitions
    ]
    return pa.table(
        {
            "spec_id": pa.array([spec_id for spec_id, _ in partitions], pa.int32()),
            "partition": pa.array(structs, pa.struct(fields.values())),
            "path": pa.array([paths[partition] for partition in partitions], pa.string()),
        }
    )


def _storage(kind: PrimitiveType) -> pa.DataType:
    found = arrow_type(kind)
    return getattr(found, "storage_type", found)


def _path(spec: PartitionSpec, types: _Types, values: Sequence[Constant]) -> str:
    """As ``PartitionSpec.partition_to_path``, for dates beyond those of Python and columns that are gone, too."""
    if all(isinstance(part.transform, VoidTransform) for part in spec.fields):
        return ""
    texts = map(_human_text, spec.fields, types, values)
    return "/".join(
        f"{quote_plus(part.name, safe='')}={quote_plus(text, safe='')}"
        for part, text in zip(spec.fields, texts, strict=True)
    )


def _human_text(part: PartitionField, kind: PrimitiveType | None, value: Constant) -> str:
    if value is None:
        return "null"
    unit = _UNITS.get(type(part.transform))
    if unit is not None and isinstance(value, int):
        return str(np.datetime_as_string(np.datetime64(value, unit))).replace("T", "-")
    plain = value if kind is None else constant_from_json(kind, value)
    if isinstance(plain, bytes):
        return b64encode(plain).decode()
    return str(value).lower() if isinstance(value, bool) else str(value)
