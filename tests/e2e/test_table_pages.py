"""The pages of pipelines into tables, in a real browser: they name the place of a batch, and nothing covers a text."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from page.api_server import ApiServer
from page.browser import browser_page, open_browser
from page.chromium import BrowserUnavailableError
from page.screenshots import stage_in
from page.stage import airflow_variables
from support.missing import missing

pytestmark = [pytest.mark.daemons, pytest.mark.extended, pytest.mark.servers, pytest.mark.spark, pytest.mark.slow]

OF_BRANCH = ["lakehouse/copies.{}", "Branch main Snapshot ", "Token icefloe.token: generation 1, batch 1"]
PLACES = {
    "orders_mirror": OF_BRANCH,
    "orders_history": OF_BRANCH,
    "orders_spark": OF_BRANCH,
    "orders_database": ["/shop/public.orders", "Token public.icefloe_token: generation 1, batch 1"],
}
COVERED = """() => {
    const within = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right + 1;
    const meet = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const place = (each) => each.getBoundingClientRect();
    const boxes = [...document.querySelectorAll(".box")];
    const wide = boxes.flatMap((box) => [...box.querySelectorAll("text")]
        .filter((text) => !within(place(text), place(box.querySelector("rect")))));
    const labels = [...document.querySelectorAll(".edge g")]
        .filter((label) => boxes.some((box) => meet(place(label), place(box.querySelector("rect")))));
    const cut = [...document.querySelectorAll(".cards dd, .facts-list dd, .pipelines td, .pipelines th")]
        .filter((each) => each.scrollWidth > each.clientWidth + 1);
    return [...wide, ...labels, ...cut].map((each) => each.textContent);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with ExitStack() as entered:
        try:
            opened = entered.enter_context(open_browser())
        except BrowserUnavailableError as reason:
            missing("the page cannot be looked at", str(reason))
        yield opened


@pytest.fixture(scope="module")
def server(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ApiServer]:
    folder: Path = tmp_path_factory.mktemp("tables")
    stage_in(folder, "tables")
    with ApiServer(folder, airflow_variables(folder)) as started:
        yield started


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_batch_in_a_table_names_its_place_and_covers_nothing(
    server: ApiServer, browser: Any, theme: str, width: int
) -> None:
    for name, places in PLACES.items():
        for query in (f"?dag_id={name}&batch=1", f"?dag_id={name}", ""):
            with browser_page(browser, theme=theme, width=width) as page:
                page.goto(f"{server.url}icefloe/{query}")
                page.locator("h1").first.wait_for()
                page.locator("main[aria-busy=false]").wait_for()
                assert page.evaluate("document.documentElement.scrollWidth") <= width, query
                assert page.evaluate(COVERED) == [], query
                if query.endswith("batch=1"):
                    shown = " ".join(page.locator("section", has_text="Delivered to").inner_text().split())
                    assert [place for place in places if place.format(name) not in shown] == [], shown
                    assert "Rows" in shown
