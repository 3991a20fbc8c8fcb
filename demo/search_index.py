"""A search index that the demo delivers to, and what a reader finds in it."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from opensearchpy import OpenSearch as Client

from demo.destination import Destination
from demo.flights_table import TableChange
from demo.progress import Progress
from demo.servers.opensearch import OpenSearch

__all__ = ["SearchIndex"]

_INDEX: Final = "flights"
_SHOWN: Final = ("flight_id", "carrier", "flight", "origin", "dest", "dep_delay", "arr_delay")


class SearchIndex(Destination[OpenSearch]):
    """OpenSearch with the index ``flights``; a context manager.

    Args:
        folder: of the server's data and log.
    """

    pipeline = "flights_search.yaml"
    title = "OpenSearch"

    def __init__(self, folder: Path) -> None:
        super().__init__(OpenSearch(folder=folder / "opensearch"))

    @property
    def connections(self) -> Mapping[str, str]:
        """See `Destination`."""
        connection = {"conn_type": "opensearch", "host": "http://127.0.0.1", "port": self._server.port}
        return {"AIRFLOW_CONN_SEARCH": json.dumps(connection)}

    def show(self, progress: Progress, changes: Sequence[TableChange], rows: int) -> list[str]:
        """Says what a search finds; returns a sentence if that is not the table."""
        with Client(self._server.url) as client:
            found = client.count(index=_INDEX)["count"]
            # The newest corrections: what a reader of a search page asks for.
            query = {"sort": [{"arr_delay": "desc"}], "size": 3, "_source": list(_SHOWN)}
            hits = client.search(index=_INDEX, body=query)["hits"]["hits"]
        progress.say(f"\n{found:,} documents in the index {_INDEX}, for example the latest arrivals:\n")
        for hit in hits:
            progress.say(f"  {_line(hit)}")
        deleted = sum(change.deletes for change in changes)
        progress.say(f"\n{deleted:,} deleted flights are documents with a mark, which searches do not find.")
        return [] if found == rows else [f"the index has {found:,} documents, not {rows:,}"]


def _line(hit: Mapping[str, Any]) -> str:
    return json.dumps({"_id": hit["_id"], **hit["_source"]})
