"""The golden file of the row hash: ``python tests/changes/golden_row_hashes.py`` prints it.

The hashes come from the plain Python of reference_row_hash.py, not from the library.
"""

import json
import sys
from decimal import Decimal
from pathlib import Path

import pyarrow as pa

KEY = 0x000102030405060708090A0B0C0D0E0F
TYPES = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "decimal(9,2)": pa.decimal128(9, 2),
    "decimal(38,10)": pa.decimal128(38, 10),
    "string": pa.string(),
    "binary": pa.binary(),
    "fixed[3]": pa.binary(3),
    "uuid": pa.uuid(),
    "struct<long,string>": pa.struct([("a", pa.int64()), ("b", pa.string())]),
    "list<string>": pa.list_(pa.string()),
    "list<list<long>>": pa.list_(pa.list_(pa.int64())),
    "map<string,double>": pa.map_(pa.string(), pa.float64()),
}

CASES = {
    "boolean": [None, True, False],
    "int": [None, 0, 1, -1, 2**31 - 1, -(2**31)],
    "long": [None, 0, 1, -1, 2**63 - 1, -(2**63)],
    "float": [None, "NaN", 0.0, -0.0, 1.5, "-Infinity"],
    "double": [None, "NaN", 0.0, -0.0, 0.1, -1e300, "Infinity"],
    "date": [None, 0, -1, 19000],
    "time": [None, 0, 86_399_999_999],
    "timestamp": [None, 0, -1, 1_700_000_000_000_000],
    "timestamptz": [None, 0, -1, 1_700_000_000_000_000],
    "timestamp_ns": [None, 0, -1, 1_700_000_000_000_000_000],
    "decimal(9,2)": [None, "0.00", "1.00", "-1.00", "9999999.99"],
    "decimal(38,10)": [None, "0", "-0.0000000001", "9999999999999999999999999999.9999999999"],
    "string": [
        None,
        "",
        "a",
        "a\0",
        "abcdefgh",
        "abcdefghi",
        "abcdefghijklmnop",
        "abcdefghijklmnopq",
        "Zürich",
        "x" * 100,
        "x" * 8_200,
    ],
    "binary": [None, "", "00", "0000", "0000000000000000", "000000000000000000", "ff" * 33],
    "fixed[3]": [None, "000000", "010203"],
    "uuid": [None, "00" * 16, "00112233445566778899aabbccddeeff"],
    "struct<long,string>": [None, {"a": None, "b": None}, {"a": 0, "b": ""}, {"a": 1, "b": "x"}],
    "list<string>": [None, [], [None], [""], ["a", "b"], ["b", "a"], ["a"] * 20],
    "list<list<long>>": [None, [], [[]], [None], [[1], [2, 3]], [[1, 2], [3]]],
    "map<string,double>": [None, [], [["a", 1.0], ["b", None]], [["b", None], ["a", 1.0]]],
}

ROWS = [
    {
        "types": ["long", "string", "double", "boolean"],
        "rows": [[1, "a", 0.5, True], [None, None, None, None], [0, "", 0.0, False], [1, "a", 0.5, None]],
    },
    {"types": ["string", "string"], "rows": [["a", "b"], ["b", "a"], ["ab", ""], ["", "ab"]]},
]


def value_of(kind, value):
    """A value of the golden file as Python's."""
    if value is not None and pa.types.is_map(kind):
        return [tuple(entry) for entry in value]
    if isinstance(value, str):
        if pa.types.is_floating(kind):
            return float(value)
        if pa.types.is_decimal(kind):
            return Decimal(value)
        if not pa.types.is_string(kind):
            return bytes.fromhex(value)
    return value


def main():
    from reference_row_hash import row_hash  # type: ignore[import-not-found]  # next to this script

    cases = [{"types": [name], "rows": [[value] for value in values]} for name, values in CASES.items()] + ROWS
    for case in cases:
        kinds = [TYPES[name] for name in case["types"]]
        rows = [[value_of(kind, value) for kind, value in zip(kinds, row, strict=True)] for row in case["rows"]]
        case["hashes"] = [f"{row_hash(kinds, row, KEY):032x}" for row in rows]
    provenance = "printed by tests/changes/golden_row_hashes.py, computed by reference_row_hash.py from docs/formats.md"
    json.dump({"provenance": provenance, "key": f"{KEY:032x}", "cases": cases}, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
