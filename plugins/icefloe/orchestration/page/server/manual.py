"""The documentation as pages next to the pipelines: `docs/`, the folder next to `plugins/`, without a network."""

import re
from collections.abc import Iterator
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

from icefloe.errors import UsageError

_FOLDER: Final = Path(__file__).parents[5] / "docs"
_NAME: Final = re.compile(r"[a-z][a-z0-9_-]*")
_CHAPTER: Final = re.compile(r"([a-z][a-z0-9_-]*)\.md(#.*)?")
_MARKS: Final = re.compile(r"[^\w\- ]")


class UnknownChapterError(UsageError):
    """The documentation has no such page."""


class Manual:
    """The chapters of a folder of Markdown files.

    Args:
        folder: holds the files; if it is missing, there are no chapters.
    """

    def __init__(self, folder: Path = _FOLDER) -> None:
        self._folder = folder
        # No HTML of the files reaches a browser, and no address except those that Markdown's own rules allow.
        self._markdown = MarkdownIt("commonmark", {"html": False}).enable("table")
        self._rendered = lru_cache(maxsize=64)(self._render)

    def chapters(self) -> list[str]:
        """The names of the chapters; the address of a page ends with one."""
        found = (path.stem for path in self._folder.glob("*.md"))
        return sorted(name for name in found if _NAME.fullmatch(name))

    def page(self, name: str) -> str:
        """A chapter as HTML.

        Raises:
            UnknownChapterError: there is no chapter of that name.
        """
        if name not in self.chapters():
            raise UnknownChapterError(f"the documentation has no page {name!r}, or is not installed next to plugins/")
        path = self._folder / f"{name}.md"
        return self._rendered(path, path.stat().st_mtime_ns)

    def picture(self, name: str) -> Path:
        """The file of a picture.

        Raises:
            UnknownChapterError: there is no picture of that name.
        """
        path = self._folder / "images" / f"{name}.png"
        if not _NAME.fullmatch(name) or not path.is_file():
            raise UnknownChapterError(f"the documentation has no picture {name!r}")
        return path

    def _render(self, path: Path, _written_ns: int) -> str:
        tokens = self._markdown.parse(path.read_text(encoding="utf-8"))
        title = next((after.content for token, after in _neighbours(tokens) if token.type == "heading_open"), path.stem)
        for token, after in _neighbours(tokens):
            if token.type == "heading_open":
                token.attrSet("id", anchor(after.content))
            for child in token.children or ():
                _follow(child)
        body = self._markdown.renderer.render(tokens, self._markdown.options, {})
        links = " · ".join(f'<a href="{each}">{escape(each)}</a>' for each in self.chapters())
        return _PAGE.format(title=escape(title), links=links, body=body)


def anchor(heading: str) -> str:
    """The anchor that links to a heading, as code hosts make it.

    >>> anchor("Counters, sent by `commit` once per batch")
    'counters-sent-by-commit-once-per-batch'
    """
    return _MARKS.sub("", heading.lower()).replace(" ", "-")


def _neighbours(tokens: list[Token]) -> Iterator[tuple[Token, Token]]:
    return zip(tokens, [*tokens[1:], Token("", "", 0)], strict=True)


def _follow(token: Token) -> None:
    """Points a link to another chapter at its page; a link to any other file is removed."""
    if token.type != "link_open":
        return
    href = str(token.attrGet("href") or "")
    chapter = _CHAPTER.fullmatch(href)
    if chapter is not None:
        token.attrSet("href", f"{chapter[1]}{chapter[2] or ''}")
    elif "://" in href:
        token.attrSet("target", "_blank")
        token.attrSet("rel", "noreferrer")
    elif not href.startswith("#"):
        del token.attrs["href"]


_PAGE: Final = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{title} - icefloe</title>
<link rel="icon" href="../icon.svg">
<link rel="stylesheet" href="../style.css">
<link rel="stylesheet" href="../parts.css">
<link rel="stylesheet" href="../manual.css">
<script type="module" blocking="render" src="../manual.js"></script>
</head>
<body>
<main>
<nav class="crumbs" aria-label="Where you are"><a href="../">icefloe</a> / {links}</nav>
<article>
{body}</article>
</main>
</body>
</html>
"""
