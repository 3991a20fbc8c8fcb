"""Chromium as people use it, or a clear word why there is none."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from page.chromium import BrowserUnavailableError, Chromium

__all__ = ["browser_page", "open_browser"]


@contextmanager
def open_browser() -> Iterator[Any]:
    """A browser without a window.

    Raises:
        BrowserUnavailableError: there is none, and none can be fetched.
    """
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as cause:
        raise BrowserUnavailableError("playwright is not installed: run `make check`, which installs it") from cause

    chromium = Chromium.find()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium.path, args=["--no-sandbox"], env={**os.environ, **chromium.environ}
        )
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
