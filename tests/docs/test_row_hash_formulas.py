"""The definition of the row hash, computed from the page as it stands."""

import re
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from changes import reference_row_hash as reference
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed

WORD = st.integers(min_value=0, max_value=2**64 - 1)
DEFINITIONS = [block for block in claimed(Kind.FORMULA) if "the sum of" not in block.text and "p = " not in block.text]
SUMS = [block for block in claimed(Kind.FORMULA) if "the sum of" in block.text]
ROUNDS = [block for block in claimed(Kind.FORMULA) if "p = " in block.text]


class Word(int):
    """An unsigned number of 64 bits, whose arithmetic is modulo 2^64."""

    def __new__(cls, number: int) -> "Word":
        return super().__new__(cls, number % 2**64)

    def __add__(self, other: int) -> "Word":
        return Word(int(self) + int(other))

    def __mul__(self, other: int) -> "Word":
        return Word(int(self) * int(other))

    def __xor__(self, other: int) -> "Word":
        return Word(int(self) ^ int(other))

    def __or__(self, other: int) -> "Word":
        return Word(int(self) | int(other))

    def __rshift__(self, other: int) -> "Word":
        return Word(int(self) >> int(other))

    __radd__, __rmul__ = __add__, __mul__


def python(block: Block) -> str:
    """A block as Python: constants, ``f(x) = ...``, and ``f(x):`` with a statement on each line."""
    written: list[str] = []
    for line in block.lines:
        bare = re.sub(r"\b(0x[0-9A-F]+|\d+)\b", r"Word(\1)", re.sub(r"  +\(the .*\)$", "", line).strip())
        if head := re.match(r"(\w+\(.*?\))(?:: +| = )(.*)", bare):
            statement = head[2] if " = " in head[2] else f"return {head[2]}"
            written += [f"def {head[1]}:", f"    {statement}"]
        elif bare:
            written.append(bare if re.match(r"[GK]\d? ", bare) else f"    {bare}")
    if re.search(r"^ +z = ", "\n".join(written), re.MULTILINE):
        written.append("    return y, z")
    return "\n".join(written)


def defined() -> dict[str, Any]:
    names: dict[str, Any] = {"Word": Word}
    for block in DEFINITIONS:
        exec(python(block), names)
    for block in ROUNDS:
        exec(python(block).partition("    p = ")[0], names)
    return names


@given(WORD, WORD, WORD)
def test_the_functions_are_those_of_the_reference(s: int, u: int, v: int) -> None:
    page = defined()
    assert [page[name] for name in ("G", "K1", "K2")] == [reference.G, reference.K1, reference.K2]
    assert page["S"](Word(u)) == reference.scrambled(u)
    assert page["child"](Word(s), v % 100) == reference.child(s, v % 100)
    assert page["mix"](Word(s), Word(u), Word(v)) == reference.mix(s, (u, v))
    assert page["R"](Word(s), Word(u), Word(v)) == reference.round_of(s, u, v)


@pytest.mark.parametrize("block", ROUNDS, ids=str)
@given(st.lists(st.integers(min_value=-(2**63), max_value=2**63 - 1), min_size=1, max_size=4))
def test_the_last_rounds_are_those_of_the_reference(block: Block, row: list[int]) -> None:
    page = defined()
    contributions = [
        page["mix"](page["S"](Word(c + 1) * page["G"]), Word(number), Word(0)) for c, number in enumerate(row)
    ]
    page["p"], page["q"] = (sum((pair[i] for pair in contributions), Word(0)) for i in (0, 1))
    for line in block.lines:
        if line.startswith(("p = ", "q = ")):
            exec(line, page)
    assert int(page["q"]) * 2**64 + int(page["p"]) == reference.row_hash([pa.int64()] * len(row), row)


@pytest.mark.parametrize("block", [block for block in SUMS if "w + " in block.text], ids=str)
@given(st.binary(max_size=40), WORD)
def test_the_words_of_bytes_are_those_of_the_reference(block: Block, content: bytes, s: int) -> None:
    page = defined()
    seed = page["child"](Word(s), 0)
    words = [Word(int.from_bytes(content[i : i + 8], "little")) for i in range(8, len(content), 8)]
    elements = [page["mix"](seed, word + Word(i) * page["K1"], Word(i) * page["K2"]) for i, word in enumerate(words)]
    page["w"] = Word(int.from_bytes(content[:8], "little"))
    assert value_words(block, page, len(content), elements) == reference.byte_words(content, s)


@pytest.mark.parametrize("block", [block for block in SUMS if "w + " not in block.text], ids=str)
@given(st.lists(st.integers(min_value=0, max_value=2**63 - 1), max_size=5), WORD)
def test_the_words_of_lists_are_those_of_the_reference(block: Block, row: list[int], s: int) -> None:
    page = defined()
    elements = []
    for i, number in enumerate(row):
        y, z = page["mix"](page["child"](Word(s), 0), Word(number), Word(0))
        elements.append(page["mix"](page["child"](Word(s), 1), y + Word(i) * page["K1"], z + Word(i) * page["K2"]))
    assert value_words(block, page, len(row), elements) == reference.list_words(pa.int64(), row, s)


def value_words(block: Block, page: dict[str, Any], n: int, elements: list[tuple[Word, Word]]) -> tuple[int, int]:
    """u and v as a block tells them."""
    names = {**page, "n": Word(n)}
    names |= {f"sum_of_{name}": sum((pair[i] for pair in elements), Word(0)) for i, name in enumerate("yz")}
    for line in block.lines:
        exec(re.sub(r"the sum of the ([yz])'?( of the elements)?", r"sum_of_\1", line), names)
    return names["u"], names["v"]
