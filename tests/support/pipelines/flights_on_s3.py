"""The table ``nyc.flights`` in the REST catalog on S3, and what pipelines deliver of it to S3."""

import io
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.expressions import In
from pyiceberg.table import Table

from icefloe.storage.location import open_store
from support.servers.deployment_page import documented_pipeline, documented_variables
from support.servers.rest_catalog import RestCatalog
from support.servers.versitygw import Versitygw

__all__ = ["Flights", "counted"]

SMALL = pa.schema([pa.field("flight_id", pa.int64(), nullable=False), pa.field("carrier", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Flights:
    """One table of the catalog.

    Attributes:
        name: of the table inside ``nyc``, and of the bucket of its pipelines.
    """

    name: str
    catalog: RestCatalog
    store: Versitygw

    @classmethod
    def create(cls, name: str, catalog: RestCatalog, store: Versitygw, *, files: int) -> Self:
        """A copy-on-write table with 100 flights of the carrier AA in each file, written by PyIceberg."""
        made = cls(name=name, catalog=catalog, store=store)
        store.make_bucket(name)
        opened = made._opened()
        opened.create_namespace_if_not_exists("nyc")
        with opened.create_table(f"nyc.{name}", SMALL).transaction() as transaction:
            for number in range(files):
                transaction.append(_flights(range(100 * number, 100 * number + 100), "AA"))
        return made

    def rewrite(self, *, files: int) -> None:
        """Rewrites every file: of its flights one is deleted and one gets the carrier UA."""
        gone, changed = range(7, 100 * files, 100), range(50, 100 * files, 100)
        self.load().overwrite(
            _flights(changed, "UA"), overwrite_filter=In(term="flight_id", literals=[*gone, *changed])
        )

    def load(self) -> Table:
        """The table by PyIceberg."""
        return self._opened().load_table(f"nyc.{self.name}")

    def write_pipeline(self, folder: Path, stem: str = "flights", **keys: Any) -> Path:
        """The documented pipeline file, by whose stem the pipeline is called, with other keys."""
        documented = documented_pipeline({"nyc.flights": f"nyc.{self.name}", "s3://lake/": f"s3://{self.name}/"})
        path = folder / f"{stem}.yaml"
        path.write_text(yaml.safe_dump({**documented, **keys}, sort_keys=False))
        return path

    def variables(self, further: Mapping[str, str] | None = None) -> dict[str, str]:
        """The documented environment variables, with the servers' places and secrets.

        Args:
            further: what stands for further placeholders of the page.
        """
        documented = documented_variables(
            {
                "https://catalog.example.com": self.catalog.uri,
                "https://s3.example.com": self.store.endpoint,
                "ACCESS-KEY": self.store.access_key,
                "SECRET-KEY": self.store.secret_key,
                **(further or {}),
            }
        )
        # The page has https:// only, and the servers of tests speak plain. A connection says so itself: executors of a
        # cluster get what it says, and not the environment of the task.
        connection = json.loads(documented["AIRFLOW_CONN_LAKE_S3"])
        connection["extra"]["allow_http"] = True
        return {**documented, "AIRFLOW_CONN_LAKE_S3": json.dumps(connection), "AWS_ALLOW_HTTP": "true"}

    def delivered(self, batch_number: int) -> Counter[tuple[str, int, str]]:
        """The changes of a batch: (change type, flight_id, carrier), counted."""
        sink = open_store(f"s3://{self.name}/changes/batch={batch_number}", options=self.store.options)
        manifest = json.loads(sink.get("_manifest.json"))
        names = [name for part in manifest["parts"] for name in part["names"]]
        return counted(pa.concat_tables(pq.read_table(io.BytesIO(sink.get(name))) for name in names))

    def _opened(self) -> Catalog:
        return load_catalog("lake", type="rest", uri=self.catalog.uri, **self.store.file_io)


def _flights(numbers: Iterable[int], carrier: str) -> pa.Table:
    ids = list(numbers)
    return pa.table({"flight_id": ids, "carrier": [carrier] * len(ids)}, schema=SMALL)


def counted(changes: pa.Table) -> Counter[tuple[str, int, str]]:
    """(change type, flight_id, carrier), counted."""
    return Counter((row["_change_type"], row["flight_id"], row["carrier"]) for row in changes.to_pylist())
