"""Links to the Spark application of a phase: to its own page while it runs, then to the history server."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from airflow.configuration import conf

from icefloe.orchestration.page.views.dag_state import RunState


def history_url() -> str | None:
    """URL of the history server in Airflow's configuration, without a final slash; None if there is none."""
    url = str(conf.get("icefloe", "spark_history_url", fallback="") or "").rstrip("/")
    return url if _is_web(url) else None


def spark_links(
    phases: Iterable[Mapping[str, Any]], run: RunState | None, *, history: str | None
) -> dict[str, dict[str, Any]]:
    """Id and link of the Spark application of each phase, by the phase's name.

    Args:
        phases: phase records from a report or from the folder of an open batch.
        run: the run that may be at work on them.
        history: as `history_url` gives it.
    """
    links = {}
    for phase in phases:
        application, page = phase.get("spark_application_id"), phase.get("spark_ui")
        if not application:
            continue
        task = None if run is None else run.tasks.get(phase["phase"])
        is_live = task is not None and task.state == "running" and bool(page) and _is_web(str(page))
        past = None if history is None else f"{history}/history/{quote(str(application), safe='')}/"
        links[str(phase["phase"])] = {
            "application_id": str(application),
            "url": page if is_live else past,
            "is_live": is_live,
        }
    return links


def _is_web(url: str) -> bool:
    return urlsplit(url).scheme in ("http", "https")
