"""Pictures of the page: `python -m page.screenshots FOLDER`, or `make screenshots`; docs/ gets those that it shows."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from page.api_server import ApiServer
from page.browser import browser_page, open_browser
from page.chromium import BrowserUnavailableError, Chromium
from page.stage import airflow_variables

__all__ = ["main", "stage_in"]

_ROOT: Final = Path(__file__).parents[2]
_SHOTS: Final = (
    ("overview", "plugin/icefloe", "light", 1440, 860),
    ("overview_dark", "plugin/icefloe", "dark", 1440, 860),
    ("overview_narrow", "icefloe/", "light", 420, 900),
    ("pipeline", "dags/flights/plugin/icefloe-dag", "light", 1440, 900),
    ("pipeline_failed", "icefloe/?dag_id=readings", "dark", 1280, 640),
    ("batch", "icefloe/?dag_id=flights&batch=5", "light", 1280, 1060),
    ("batch_open", "icefloe/?dag_id=web_sessions&batch=3", "dark", 1280, 1080),
    ("batch_narrow", "icefloe/?dag_id=flights&batch=5", "dark", 420, 1000),
    ("pipeline_new", "icefloe/?dag_id=clicks", "light", 1280, 700),
    ("backfill", "icefloe/?dag_id=flights&backfill=1", "light", 1280, 760),
)
_TABLES: Final = (
    ("mirror", "icefloe/?dag_id=orders_mirror&batch=1", "light", 1280, 1240),
    ("history", "icefloe/?dag_id=orders_history&batch=1", "dark", 1280, 1240),
    ("database", "icefloe/?dag_id=orders_database&batch=1", "light", 390, 1500),
    ("spark", "icefloe/?dag_id=orders_spark&batch=1", "dark", 390, 1500),
    ("tables", "icefloe/", "light", 1280, 760),
    ("tables_narrow", "icefloe/", "dark", 390, 1600),
    ("checks", "icefloe/?dag_id=orders_checked&batch=1", "light", 1280, 1000),
    ("checks_narrow", "icefloe/?dag_id=orders_mirror&batch=1", "dark", 390, 2200),
    ("group", "dags/shop_report/plugin/icefloe-dag", "light", 1440, 700),
)
_FIRST_DAY: Final = (("overview_empty", "plugin/icefloe", "light", 1280, 760),)


def main() -> int:
    """Makes the pictures anew."""
    try:
        Chromium.find()
    except BrowserUnavailableError as reason:
        print(reason, file=sys.stderr)
        return 2
    target = Path(sys.argv[1])
    target.mkdir(parents=True, exist_ok=True)
    # A short path of no particular machine: it is seen on the pictures.
    folder = Path(tempfile.mkdtemp(prefix="icefloe-"))
    stage_in(folder)
    _shoot(folder, _SHOTS, target)
    tables = Path(tempfile.mkdtemp(prefix="icefloe-"))
    stage_in(tables, "tables")
    _shoot(tables, _TABLES, target)
    empty = Path(tempfile.mkdtemp(prefix="icefloe-"))
    stage_in(empty, batches=0)
    _shoot(empty, _FIRST_DAY, target)
    pages = "".join(page.read_text() for page in (_ROOT / "docs").rglob("*.md"))
    for picture in target.glob("*.png"):
        if f"images/{picture.name})" in pages:
            shutil.copy(picture, _ROOT / "docs" / "images")
    return 0


def _shoot(folder: Path, shots: Iterable[tuple[str, str, str, int, int]], target: Path) -> None:
    with ApiServer(folder, airflow_variables(folder)) as server, open_browser() as browser:
        for name, path, theme, width, height in shots:
            with browser_page(browser, theme=theme, width=width, height=height) as page:
                page.goto(server.url + path)
                _frame(page, path).locator("h1").first.wait_for()
                _frame(page, path).locator("#manual nav").wait_for()
                _frame(page, path).locator("main[aria-busy=false]").wait_for()
                page.wait_for_load_state("networkidle")
                page.screenshot(path=str(target / f"{name}.png"))
            print(target / f"{name}.png")


def stage_in(folder: Path, batches: int | str | None = None) -> None:
    """Stages a home, by the argument of `page.stage`, in a process of its own; what it prints goes to a file."""
    command = [sys.executable, "-m", "page.stage", str(folder), *([] if batches is None else [str(batches)])]
    kept = {key: value for key, value in os.environ.items() if not key.startswith("AIRFLOW")}
    path = os.pathsep.join(str(_ROOT / part) for part in ("plugins", "tests", "."))
    with (folder / "stage.out").open("wb") as output:
        ended = subprocess.run(command, env={**kept, "PYTHONPATH": path}, stdout=output, stderr=output, check=False)
    if ended.returncode:
        raise RuntimeError((folder / "stage.out").read_text(errors="replace")[-3000:])


def _frame(page: Any, path: str) -> Any:
    return page if path.startswith("icefloe/") else page.frame_locator("iframe")


if __name__ == "__main__":
    sys.exit(main())
