"""The formulas of the row hash, computed from the page as they stand there."""

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from changes import reference_row_hash as reference
from support.pages.blocks import Block
from support.pages.claims import Kind, claimed

WORD = st.integers(min_value=0, max_value=2**64 - 1)
[MIX] = [block for block in claimed(Kind.FORMULA) if "mix" in block.text]
[ROUNDS] = [block for block in claimed(Kind.FORMULA) if "p = " in block.text]


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

    def __rshift__(self, other: int) -> "Word":
        return Word(int(self) >> int(other))


def python(block: Block) -> str:
    """A block as Python: ``f(x):`` with a statement on each line, then statements."""
    written: list[str] = []
    for line in block.lines:
        bare = re.sub(r"\b(0x[0-9A-F]+|\d+)\b", r"Word(\1)", line.strip())
        if head := re.match(r"(\w+\(.*?\)): +(.*)", bare):
            written += [f"def {head[1]}:", f"    {head[2]}"]
        elif bare:
            written.append(f"    {bare}" if line.startswith(" ") else bare)
    if re.search(r"^ +z = ", "\n".join(written), re.MULTILINE):
        written.append("    return y, z")
    return "\n".join(written)


@given(WORD, WORD, st.binary(min_size=16, max_size=20))
def test_a_contribution_is_that_of_the_reference(u: int, v: int, seed: bytes) -> None:
    names: dict[str, Any] = {"Word": Word, "D": lambda i: Word(reference.drawn(seed, int(i)))}
    exec(python(MIX), names)
    factors = [reference.drawn(seed, i) for i in range(10)]
    assert names["mix"](Word(u), Word(v)) == reference.mix((u, v), factors)


@given(WORD, WORD)
def test_the_last_rounds_are_those_of_the_reference(p: int, q: int) -> None:
    names: dict[str, Any] = {"Word": Word, "p": Word(p), "q": Word(q)}
    exec(python(ROUNDS), names)
    assert (names["p"], names["q"]) == reference.scrambled(p, q)
