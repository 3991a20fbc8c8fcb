"""The pages of pipelines into tables, in a real browser: they name the place of a batch, and nothing covers a text."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from page.api_server import ApiServer
from page.browser import browser_page, open_browser
from page.chromium import BrowserUnavailableError
from page.layout import layout_faults
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
            with looked_at(server, browser, query, theme=theme, width=width) as page:
                if query.endswith("batch=1"):
                    shown = " ".join(page.locator("section", has_text="Delivered to").inner_text().split())
                    assert [place for place in places if place.format(name) not in shown] == [], shown
                    assert "Rows" in shown
                    partitions = page.locator("dl.facts-list dd", has_text="hundred=400").inner_text()
                    assert partitions.split() == ["8", *sorted(f"hundred={first}" for first in range(400, 1200, 100))]
    with looked_at(server, browser, "?dag_id=orders_mirror&batch=0", theme=theme, width=width) as page:
        partitions = page.locator("dl.facts-list dd", has_text="hundred=400").inner_text()
        assert (partitions.split()[0], partitions[-11:]) == ("12", " and 2 more")


@contextmanager
def looked_at(server: ApiServer, browser: Any, query: str, *, theme: str, width: int) -> Iterator[Any]:
    """A page without a fault of its layout, also when all that it folds is open."""
    with browser_page(browser, theme=theme, width=width) as page:
        page.goto(f"{server.url}icefloe/{query}")
        page.locator("h1").first.wait_for()
        page.locator("main[aria-busy=false]").wait_for()
        assert layout_faults(page) == [], query
        yield page
        page.locator("details").evaluate_all("all => all.forEach((each) => { each.open = true; })")
        assert layout_faults(page) == [], query


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_checks_are_shown_with_their_wrong_rows_folded(server: ApiServer, browser: Any, theme: str, width: int) -> None:
    for name, outcome in (("orders_mirror", "warned"), ("orders_checked", "failed")):
        with looked_at(server, browser, f"?dag_id={name}&batch=1", theme=theme, width=width) as page:
            checks = page.get_by_role("region", name="Checks")
            rows = [row.split() for row in checks.locator("tbody tr:not(.below)").all_inner_texts()]
            assert rows == [
                ["every_order_has_a_note", "passed", "0"], ["few_orders_change", outcome, "800"],
            ]  # fmt: skip
            assert not checks.get_by_text("note: shop.orders").first.is_visible()
            checks.get_by_text("The first 5").click()
            assert checks.get_by_text("note: shop.orders").first.is_visible()


@pytest.mark.parametrize("width", [1280, 390])
def test_a_task_group_of_another_dag_is_a_pipeline(server: ApiServer, browser: Any, width: int) -> None:
    with looked_at(server, browser, "", theme="light", width=width) as page:
        page.get_by_text("group orders of shop_report").wait_for()
    with looked_at(server, browser, "?dag_id=shop_report", theme="dark", width=width) as page:
        page.get_by_role("heading", name="orders_mirror", exact=True).wait_for()
        assert page.get_by_role("link", name="Backfill a range").count() == 0
        page.get_by_role("link", name="#1", exact=True).click()
        page.get_by_role("heading", name="Batch 1 of orders_mirror").wait_for()
        assert "group=orders" in page.url
