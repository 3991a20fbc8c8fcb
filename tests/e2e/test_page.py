"""The page in a real browser, inside Airflow's own pages, over pipelines in every state."""

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
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

pytestmark = [pytest.mark.daemons, pytest.mark.extended]


@pytest.fixture(scope="module")
def folder(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Staged only where a browser can look at it."""
    made = tmp_path_factory.mktemp("page")
    stage_in(made, batches=3)
    return made


@pytest.fixture(scope="module")
def server(folder: Path) -> Iterator[ApiServer]:
    with ApiServer(folder, airflow_variables(folder)) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with ExitStack() as entered:
        try:
            opened = entered.enter_context(open_browser())
        except BrowserUnavailableError as reason:
            missing("the page cannot be looked at", str(reason))
        yield opened


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    with browser_page(browser) as opened:
        faults: list[str] = []
        opened.on("pageerror", lambda error: faults.append(str(error)))
        yield opened
        assert faults == []


def inside(page: Any) -> Any:
    return page.frame_locator("iframe")


def test_the_overview_in_airflow_begins_with_what_is_wrong_and_why(server: ApiServer, page: Any) -> None:
    page.goto(server.url)
    page.get_by_test_id("nav-sidebar").get_by_role("link", name="icefloe").click()
    frame = inside(page)
    frame.get_by_role("heading", name="2 pipelines need you").wait_for()
    groups = frame.locator("table.pipelines > tbody")
    groups.get_by_text("its table moves on").wait_for()
    assert groups.evaluate_all("all => all.map(each => each.dataset.state)") == [
        "broken file", "failed", "behind", "running", "paused", "up to date",
    ]  # fmt: skip
    assert "unknown key 'tabel'" in groups.nth(0).inner_text()
    assert "it was dropped and created again" in groups.nth(1).inner_text()
    assert "The DAG is paused while its table moves on: 3 snapshots wait." in groups.nth(2).inner_text()
    assert "since" in groups.nth(3).inner_text()
    frame.get_by_role("link", name="Log of plan").click()
    page.wait_for_url(re.compile(r"/dags/readings/runs/.*/tasks/plan"))


def test_a_batch_that_is_delivered_shows_its_sink(server: ApiServer, page: Any, folder: Path) -> None:
    page.goto(f"{server.url}icefloe/?dag_id=orders")
    page.get_by_role("columnheader", name="Visible after").wait_for()
    page.get_by_role("link", name="#0", exact=True).click()
    page.get_by_role("heading", name="Delivery").wait_for()
    assert "insert only, deliver, commit" in page.locator("svg.route-picture").get_attribute("aria-label")
    assert f"documents file://{folder}/documents" in page.locator(".facts-list").last.inner_text()
    page.goto(f"{server.url}icefloe/?dag_id=flights&batch=0")
    page.locator("svg.route-picture").wait_for()
    assert page.locator("svg.route-picture").get_by_text("deliver", exact=True).count() == 0


PAGES = (
    "", "?dag_id=flights", "?dag_id=flights&batch=2", "?dag_id=flights&backfill=1", "?dag_id=orders&batch=0",
    "?dag_id=readings", "?dag_id=web_sessions&batch=3", "?dag_id=customers", "?dag_id=clicks",
)  # fmt: skip


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_is_wider_than_its_window_and_no_text_covers_another(
    server: ApiServer, browser: Any, theme: str, width: int
) -> None:
    for query in PAGES:
        with browser_page(browser, theme=theme, width=width) as page:
            page.goto(f"{server.url}icefloe/{query}")
            page.locator("h1").first.wait_for()
            page.locator("main[aria-busy=false]").wait_for()
            assert layout_faults(page) == [], query


@pytest.mark.parametrize(
    "fault",
    [".headline + p { margin-top: -24px; }", "main { width: 3000px; }", ".box .name { font-size: 40px !important; }"],
)
def test_faults_of_the_layout_are_found(server: ApiServer, page: Any, fault: str) -> None:
    page.goto(f"{server.url}icefloe/?dag_id=flights&batch=2")
    page.locator("svg.route-picture").wait_for()
    assert layout_faults(page) == []
    page.add_style_tag(content=fault)
    assert layout_faults(page) != []


FOCUSED = """() => {
    const element = document.activeElement, style = getComputedStyle(element);
    const name = element.ariaLabel ?? element.textContent;
    return {name, isSeen: style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2};
}"""


def tabbed_to(page: Any, wanted: str) -> list[str]:
    """The names of what has the focus on the way; each is named, and to be seen."""
    names: list[str] = []
    while not names or names[-1] != wanted:
        page.keyboard.press("Tab")
        found = page.evaluate(FOCUSED)
        assert found["isSeen"], found
        assert found["name"].strip(), names
        names.append(found["name"])
        assert len(names) < 60, names
    return names


def test_by_the_tab_key_through_the_overview_to_a_pipeline_and_back(server: ApiServer, browser: Any) -> None:
    with browser_page(browser, width=400) as page:
        page.goto(f"{server.url}icefloe/")
        page.get_by_text("its table moves on").wait_for()
        names = tabbed_to(page, "flights")
        pipelines = [name for name in names if name in ("customers", "readings", "orders", "web_sessions", "flights")]
        assert pipelines == ["customers", "readings", "orders", "web_sessions", "flights"]
        assert names.index("readings") < names.index("Log of plan") < names.index("orders")
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="flights", exact=True).wait_for()
        assert page.title() == "flights · icefloe"
        assert "Batches" in tabbed_to(page, "#0")
        page.evaluate("scrollTo(0, 0)")
        page.get_by_role("link", name="icefloe", exact=True).focus()
        page.keyboard.press("Enter")
        page.get_by_role("heading", name="2 pipelines need you").wait_for()


def test_the_focused_element_keeps_the_focus_when_the_page_looks_again(server: ApiServer, page: Any) -> None:
    page.goto(f"{server.url}icefloe/?dag_id=flights")
    link = page.get_by_role("link", name="Backfill a range")
    link.focus()
    link.evaluate("each => each.dataset.old = 'yes'")
    with page.expect_response(re.compile("api/pipelines/flights")):
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    page.wait_for_function("!document.querySelector('[data-old]')")
    assert page.evaluate(FOCUSED)["name"] == "Backfill a range …"


COUNTED_LOOKS = """
globalThis.looks = 0;
globalThis.fetch = async (url) => {
    if (!String(url).includes("/api/")) return {ok: false};
    looks += 1;
    const found = {now: new Date().toISOString(), is_looking: true, pipelines: [], counts: {}};
    return {ok: true, json: async () => found};
};
"""
HIDE_OR_SHOW = """isHidden => {
    Object.defineProperty(document, 'hidden', {value: isHidden, configurable: true});
    document.dispatchEvent(new Event('visibilitychange'));
}"""


def test_it_looks_once_a_second_while_tables_are_looked_at_and_not_while_it_is_hidden(
    server: ApiServer, page: Any
) -> None:
    page.clock.install()
    page.add_init_script(COUNTED_LOOKS)
    page.goto(f"{server.url}icefloe/")
    page.get_by_role("heading", name="No pipelines yet").wait_for()

    def looks_of(seconds: int) -> int:
        before = page.evaluate("looks")
        page.clock.run_for(seconds * 1000)
        return int(page.evaluate("looks")) - before

    for _ in range(3):
        assert 25 <= looks_of(30) <= 35
        page.evaluate(HIDE_OR_SHOW, False)
    page.evaluate(HIDE_OR_SHOW, True)
    assert looks_of(60) == 0
    page.evaluate(HIDE_OR_SHOW, False)
    assert 25 <= looks_of(30) <= 35


def test_every_picture_says_in_words_what_it_shows(server: ApiServer, page: Any) -> None:
    for path in ("", "?dag_id=flights", "?dag_id=flights&batch=2"):
        page.goto(f"{server.url}icefloe/{path}")
        page.locator("[role=img]").first.wait_for()
        labels = page.locator("[role=img], svg").evaluate_all("all => all.map(each => each.getAttribute('aria-label'))")
        assert all(label and len(label) > 10 for label in labels), labels


def test_a_batch_that_runs_leads_to_spark_and_says_what_was_decoded_of_others(server: ApiServer, page: Any) -> None:
    page.goto(f"{server.url}icefloe/?dag_id=web_sessions&batch=3")
    link = page.get_by_role("link", name=re.compile("^Spark UI of shuffle_read"))
    link.wait_for()
    assert link.get_attribute("href") == "http://spark-driver.example.com:4040"
    said = "node worker-2.example.com:4995 lost 3 map outputs (it does not answer)"
    page.locator("p.said", has_text=said).wait_for()
    page.goto(f"{server.url}icefloe/?dag_id=flights&batch=2")
    page.locator("dl.cards dt", has_text="Decoded").wait_for()
    page.locator("dl.cards dt", has_text="Store requests").wait_for()


def test_the_tabs_of_the_dag_and_of_the_run(server: ApiServer, page: Any) -> None:
    page.goto(f"{server.url}dags/flights/plugin/icefloe-dag")
    inside(page).get_by_role("heading", name="Batches", exact=True).wait_for()
    run_id = page.request.get(f"{server.url}api/v2/dags/flights/dagRuns?limit=1").json()["dag_runs"][0]["dag_run_id"]
    page.goto(f"{server.url}dags/flights/runs/{run_id}/plugin/icefloe-run")
    inside(page).get_by_role("heading", name="Batch 0 of flights").wait_for()


def test_a_range_picked_from_the_history_starts_the_backfill_dag(server: ApiServer, page: Any) -> None:
    page.goto(f"{server.url}icefloe/?dag_id=flights&backfill=1")
    page.get_by_role("radio", name="from the beginning of the table").check()
    oldest = page.get_by_role("radio", name=re.compile("up to snapshot")).last
    oldest.check()
    chosen = oldest.get_attribute("aria-label").removeprefix("up to snapshot ")
    assert page.locator(".picked h2").inner_text() == "1 snapshot"
    page.get_by_role("button", name="Start backfill").click()
    page.get_by_role("status").wait_for()
    [run] = page.request.get(f"{server.url}api/v2/dags/flights__backfill/dagRuns").json()["dag_runs"]
    assert {key: value for key, value in run["conf"].items() if value} == {"up_to_snapshot_id": chosen}
    page.get_by_role("link", name="look at it here").click()
    page.get_by_role("heading", name="Backfill of flights").wait_for()


HISTORY = "pipelines/flights/snapshots"
FORM = "in the form of flights__backfill"
EXPIRED = "expired: a range cannot begin before"


def answered_with(page: Any, path: str, change: Callable[[Any], Any]) -> None:
    """Changes what the server answers with."""

    def answer(route: Any) -> None:
        response = route.fetch()
        route.fulfill(response=response, json=change(response.json()))

    page.route(f"**/icefloe/api/{path}", answer)


@pytest.mark.parametrize(
    ("older", "reaches_beginning", "said"),
    [
        (1, True, f"1 older snapshot is not listed: name it {FORM}; the beginning of the table's history"),
        (7, False, f"7 older snapshots are not listed: name one {FORM}; those before them {EXPIRED}"),
    ],
)
def test_a_history_that_is_cut_is_not_called_expired(
    server: ApiServer, page: Any, older: int, reaches_beginning: bool, said: str
) -> None:
    changes = {"older_snapshots": older, "reaches_beginning": reaches_beginning}
    answered_with(page, HISTORY, lambda found: {**found, **changes})
    page.goto(f"{server.url}icefloe/?dag_id=flights&backfill=1")
    assert page.locator(".picker tbody tr").last.inner_text().strip() == said
    beginning = page.get_by_role("radio", name="from the beginning of the table")
    oldest = page.get_by_role("radio", name=re.compile("up to snapshot")).last
    assert beginning.is_enabled() == oldest.is_enabled() == reaches_beginning
    if reaches_beginning:
        beginning.check()
        rows = page.locator(".picker tbody tr").count() - 1
        assert page.locator(".picked h2").inner_text() == f"{rows + older} snapshots"


@pytest.mark.parametrize("reaches_beginning", [True, False])
def test_one_snapshot_is_a_range_only_from_the_beginning(server: ApiServer, page: Any, reaches_beginning: bool) -> None:
    changes = {"older_snapshots": 0, "reaches_beginning": reaches_beginning}
    answered_with(page, HISTORY, lambda found: {**found, "snapshots": found["snapshots"][:1], **changes})
    page.goto(f"{server.url}icefloe/?dag_id=flights&backfill=1")
    picked = page.locator(".picked")
    assert picked.locator("h2").inner_text() == ("1 snapshot" if reaches_beginning else "No range")
    assert ("No range can begin here" in picked.inner_text()) != reaches_beginning
    assert page.get_by_role("button", name="Start backfill").is_enabled() == reaches_beginning


@pytest.mark.parametrize(("left", "said"), [(-300, "overdue"), (330, "for 5 min"), (260_000, "for 3 d")])
def test_the_servers_clock_says_how_long_history_is_kept(server: ApiServer, page: Any, left: int, said: str) -> None:
    def expiring(row: Any, now: str) -> Any:
        at = datetime.fromisoformat(now) + timedelta(seconds=left)
        expiry = {"snapshot_id": "7", "at": at.isoformat()}
        return {**row, "status": {**row["status"], "next_expiry": expiry, "lag_snapshots": 2}}

    def overview(found: Any) -> Any:
        return {**found, "pipelines": [expiring(row, found["now"]) for row in found["pipelines"]]}

    def pipeline(found: Any) -> Any:
        return {**found, "pipeline": expiring(found["pipeline"], found["now"])}

    answered_with(page, "overview", overview)
    answered_with(page, "pipelines/flights", pipeline)
    page.clock.set_system_time(datetime.now(UTC) + timedelta(days=30))
    page.goto(f"{server.url}icefloe/")
    flights = page.locator("tbody", has=page.get_by_role("link", name="flights", exact=True))
    kept = flights.locator("[data-label='History kept']")
    assert kept.inner_text() == said
    assert kept.locator(".warn").count() == (left < 2 * 86400)
    page.goto(f"{server.url}icefloe/?dag_id=flights")
    assert page.locator("dl.cards div", has_text="History kept").locator("dd").inner_text().startswith(said)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_it_is_as_light_or_dark_as_airflow(server: ApiServer, browser: Any, theme: str) -> None:
    with browser_page(browser, theme=theme) as page:
        page.goto(f"{server.url}plugin/icefloe")
        frame = inside(page)
        frame.locator("h1").wait_for()
        assert frame.locator("html").get_attribute("data-theme") == theme
        ground = "each => getComputedStyle(each.ownerDocument.documentElement).backgroundColor"
        assert frame.locator("h1").evaluate(ground) == page.locator("iframe").evaluate(ground)


@pytest.mark.parametrize("path", ["", "?dag_id=flights&batch=2", "?dag_id=flights&backfill=1"])
def test_a_narrow_window_scrolls_in_one_direction(server: ApiServer, browser: Any, path: str) -> None:
    with browser_page(browser, width=360) as page:
        page.goto(f"{server.url}icefloe/{path}")
        page.locator("h1").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
