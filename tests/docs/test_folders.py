import re
from typing import Any

from icefloe.batch.batch_keys import begun_key, delivery_key, error_key
from icefloe.batch.open.next_range import RequestedRange
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed
from support.pipelines.flights import Flights
from support.pipelines.transfers import blocks_in_a_file_of_their_own

EXTENSIONS = r"(json|parquet|data|index|moves|void)"


def patterns(block: Block) -> set[str]:
    """Each file of a block as a regular expression for the end of its path."""
    text = re.sub(r"(\S+)\.data\|\.index", r"\1.data \1.index", block.text)
    words = re.findall(r"[^\s,]+", re.sub(r"<(sink )?path>/", "", text))
    files = [word for word in words if re.search(rf"\.{EXTENSIONS}$|\.\.\.$|<generation>$", word)]
    return {pattern(word) for word in files}


def pattern(word: str) -> str:
    """Digits stand for as many others, a name in brackets for any."""
    parts = re.split(r"(<[^>]+>|\.\.\.|\d+)", word)
    return r"(.*/)?" + "".join(expression(part) for part in parts)


def expression(part: str) -> str:
    if part.isdigit():
        return rf"\d{{{len(part)}}}"
    return ".*" if part == "..." else r"[\w-]+" if part.startswith("<") else re.escape(part)


def test_files_and_folders_are_those_that_runs_leave(flights: Flights) -> None:
    # Rows are delivered without their key, so that equal ones are looked for; little files, so that there are many.
    sink = {"target_file_bytes": 2000}
    keys: dict[str, Any] = {"columns": ["carrier"], "shuffle": {"map_task_bytes": "1KiB"}, "sink": sink}
    flights.write_pipeline("flights", **keys)
    flights.lake.append(*[(number, f"carrier {number}") for number in range(400)])
    flights.lake.append(*[(number, f"carrier {number}") for number in range(400, 800)])
    found = flights.files_before_cleanup("flights", is_damaged=False)
    flights.lake.replace_carrier(7, "DL")
    with blocks_in_a_file_of_their_own():
        found += flights.files_before_cleanup("flights", is_damaged=True)
    up_to = RequestedRange(up_to_snapshot_id=flights.lake.current_snapshot_id())
    found += flights.files_before_cleanup("flights", up_to, is_damaged=False)
    found += [error_key("shuffle_write", "0a1b"), begun_key(), delivery_key(0), delivery_key(None)]

    for block in claimed(Kind.FOLDERS):
        documented = patterns(block)
        places = {path for path in found if belongs(path, block)}
        unknown = {path for path in places if not any(re.fullmatch(each, path) for each in documented)}
        assert not unknown, f"{block} lacks {sorted(unknown)}"
        never = {each for each in documented if not any(re.fullmatch(each, path) for path in found)}
        assert not never, f"{block} has files that nobody wrote: {sorted(never)}"


def belongs(path: str, block: Block) -> bool:
    """True if a block about the sink alone must name it."""
    return "<storage>" in block.text or path.startswith("changes/")
