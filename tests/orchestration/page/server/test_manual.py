import re
from pathlib import Path

import pytest

from icefloe.orchestration.page.app import Manual
from icefloe.orchestration.page.page_documents import UnknownPageError


def test_every_chapter_is_a_page_whose_links_lead_to_headings_that_are_there() -> None:
    manual = Manual()
    pages = {name: manual.page(name) for name in manual.chapters()}
    assert {"airflow", "operations", "changes"} <= pages.keys()
    for name, page in pages.items():
        article = page[page.index("<article>") :]
        for chapter, heading in re.findall(r'href="([a-z_-]*)#([^"]+)"', article):
            assert f'id="{heading}"' in pages[chapter or name]
        for chapter in re.findall(r'href="([a-z_-]+)"', article):
            assert chapter in pages
        for picture in re.findall(r'src="images/(\w+).png"', article):
            assert manual.picture(picture).is_file()


def test_a_changed_page_is_shown_and_html_is_text(tmp_path: Path) -> None:
    manual = Manual(tmp_path)
    page = tmp_path / "notes.md"
    page.write_text("# One\n\n<script>alert(1)</script> [out](../secret.md) [bad](javascript:alert)\n")
    assert "<script>alert" not in manual.page("notes")
    assert 'href="../secret' not in manual.page("notes")
    assert 'href="javascript' not in manual.page("notes")
    page.write_text("# Two\n")
    assert '<h1 id="two">Two</h1>' in manual.page("notes")


@pytest.mark.parametrize("name", ["nothing", "../README", "..", "", "images/overview"])
def test_nothing_else_is_a_chapter_or_a_picture(name: str) -> None:
    with pytest.raises(UnknownPageError, match="has no page"):
        Manual().page(name)
    with pytest.raises(UnknownPageError, match="has no picture"):
        Manual().picture(name)


def test_without_the_folder_there_are_no_chapters(tmp_path: Path) -> None:
    assert Manual(tmp_path / "docs").chapters() == []
