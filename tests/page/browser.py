"""Chromium as people use it, or a clear word why there is none."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

__all__ = ["MISSING", "browser_page", "open_browser"]

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def _missing() -> str | None:
    try:
        import playwright.sync_api  # noqa: F401
    except ImportError:
        return "playwright is not installed: pip install -r requirements-dev.txt"
    if not any(shutil.which(name) for name in _NAMES):
        return "there is no Chromium on the path: apt-get install chromium"
    return None


MISSING: Final = _missing()
"""Why no browser can be opened; None where one can."""


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser without a window."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        path = next(found for name in _NAMES if (found := shutil.which(name)))
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def browser_page(browser: Any, *, theme: str = "light", width: int = 1440, height: int = 900) -> Iterator[Any]:
    """A fresh page in Airflow's light or dark theme."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme, locale="en-US")
    context.add_init_script(f"localStorage.setItem('theme', '{theme}')")
    page = context.new_page()
    page.set_default_timeout(30_000)
    yield page
    context.close()
