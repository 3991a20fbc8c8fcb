"""The code blocks of the documentation: fenced and indented ones, with where they stand."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt

__all__ = ["ROOT", "Block", "all_blocks", "blocks_of", "pages"]

ROOT: Final = Path(__file__).parents[3]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One code block.

    Attributes:
        page: below the repository's root.
        line: of its first line of text, from 1.
        language: what a fence names; empty for indented blocks.
        section: the headings above it, outermost first.
    """

    page: str
    line: int
    language: str
    section: tuple[str, ...]
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def lines(self) -> list[str]:
        """The lines of its text."""
        return self.text.splitlines()


def pages() -> list[Path]:
    """The pages that users and contributors read."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]


@cache
def all_blocks() -> tuple[Block, ...]:
    """The blocks of all pages."""
    return tuple(
        block
        for path in pages()
        for block in blocks_of(path.read_text(encoding="utf-8"), page=str(path.relative_to(ROOT)))
    )


def blocks_of(text: str, *, page: str) -> Iterator[Block]:
    r"""The blocks of one page.

    >>> [(block.line, block.section, block.text) for block in blocks_of("# A\n\n```sh\nls\n```\n", page="a.md")]
    [(4, ('A',), 'ls\n')]
    """
    section: tuple[str, ...] = ()
    tokens = MarkdownIt("commonmark").parse(text)
    for token, following in zip(tokens, [*tokens[1:], None], strict=True):
        if token.type == "heading_open" and following is not None:
            section = (*section[: int(token.tag[1]) - 1], following.content)
        elif token.type in ("fence", "code_block") and token.map is not None:
            first = token.map[0] + (2 if token.type == "fence" else 1)
            language = token.info.split()[0] if token.info.strip() else ""
            yield Block(page=page, line=first, language=language, section=section, text=token.content)
