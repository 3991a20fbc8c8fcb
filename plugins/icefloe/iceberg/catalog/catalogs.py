"""Loading a table through a catalog."""

import difflib
import importlib
import logging
import os
import re
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from pyiceberg.catalog import AVAILABLE_CATALOGS, PY_CATALOG_IMPL, TYPE, URI, Catalog, CatalogType
from pyiceberg.exceptions import NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError
from pyiceberg.io import FileIO, InputFile, load_file_io
from pyiceberg.serializers import Compressor, FromByteStream, FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from icefloe.errors import TerminalError, TransientError
from icefloe.iceberg.catalog.catalog_errors import catalog_errors, decoded_metadata, reading_metadata
from icefloe.iceberg.catalog.confined_io import confine
from icefloe.iceberg.catalog.file_io import FileGoneError, exact
from icefloe.iceberg.table import table_name
from icefloe.iceberg.unreadable import read_configuration, refuse_encrypted
from icefloe.patience import Patience
from icefloe.redaction.hidden import hide, hide_environment

__all__ = ["UnknownTableError", "load_catalog", "load_table"]

logger = logging.getLogger(__name__)


_MAPPINGS: Final = ("auth", "ssl")
_IN_HEADERS: Final = re.compile(
    r"token|credential|header\..*|scope|.*access-key-id|.*session-token|.*[._-]token|.*sas-token.*|ur[il]|.*endpoint"
)
_CONTROL: Final = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
_BREAKS: Final = "\r\n"


def usable_properties(name: str, properties: Mapping[str, object]) -> dict[str, object]:
    """The properties without the line break that a mounted secret ends in."""
    usable = {key: _stripped(value) for key, value in properties.items() if value is not None}
    # The extra of a connection is JSON.
    usable |= {key: str(value).lower() for key, value in usable.items() if isinstance(value, bool | int | float)}
    for key, value in usable.items():
        if isinstance(value, list) or isinstance(value, Mapping) != (key in _MAPPINGS):
            example = "`auth: {type: basic, basic: {username: ..., password: ...}}` of .pyiceberg.yaml"
            expected = f"a mapping, as in {example}" if key in _MAPPINGS else "text, a number, true or false"
            raise TerminalError(f"catalog {name!r}: its property {key!r} must be {expected}: write it so")
        if isinstance(value, str) and _IN_HEADERS.fullmatch(key) and _CONTROL.search(value):
            raise TerminalError(
                f"catalog {name!r}: its property {key!r} holds a line break or another character that no request can "
                "carry: write its value again, in one line"
            )
    return usable


def _stripped(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _stripped(below) for key, below in value.items()}
    return value.strip(_BREAKS) if isinstance(value, str) else value


_DEFAULT_NAME: Final = "default"
_URIS: Final = {
    CatalogType.REST: (re.compile("https?://[^/]", re.IGNORECASE), "https://catalog.example.com"),
    CatalogType.HIVE: (re.compile("thrift://[^/]"), "thrift://metastore.example.com:9083"),
    CatalogType.SQL: (re.compile(r"(?!jdbc)[a-z0-9]+(\+\w+)?://"), "postgresql+psycopg2://host/database"),
}
"""The form of the uri by the type of catalog, and an example."""
_NOT_THERE: Final = (NoSuchIdentifierError, NoSuchNamespaceError, NoSuchTableError)


class UnknownTableError(TerminalError):
    """The catalog has no such table, or the table no such branch.

    Attributes:
        branch: the branch or tag that the table lacks; None: the catalog lacks the table.
    """

    branch: str | None = None


def load_table(
    catalog: str | Mapping[str, str],
    table: str,
    *,
    properties: Mapping[str, str] | None = None,
    allowed_locations: Sequence[str] = (),
) -> Table:
    """The table as its catalog has it now; its FileIO has the catalog's properties, never the table's.

    The FileIO opens files only in the places of the table and its catalog, and in the allowed locations.

    Args:
        catalog: of PyIceberg's configuration, or a mapping of its properties with its ``name`` (default ``default``).
        properties: all properties of the named catalog; PyIceberg's configuration is not merged in.

    Raises:
        UnknownTableError: names similar tables of its namespace.
    """
    opened, patience = _open_catalog(catalog, properties)
    if "." not in table:
        raise UnknownTableError(
            f"table {table!r} of catalog {opened.name!r} has no namespace: write namespace.name",
            catalog=opened.name, table=table,
        )  # fmt: skip
    try:
        with catalog_errors(opened.name, f"load table {table}"):
            loaded = patience.wait_for(partial(_load, opened, table), f"load {table}")
            own = own_file_io(loaded)
            hide(own.properties, only_secrets=True)
            loaded.io = confine(loaded, own, name=table_name(loaded), allowed_locations=allowed_locations)
    except _NOT_THERE as cause:
        raise UnknownTableError(
            f"catalog {opened.name!r} has no table {table}{_near(opened, table, patience)}",
            catalog=opened.name,
            table=table,
        ) from cause
    refuse_encrypted(loaded.properties, table=table)
    return loaded


def load_catalog(catalog: str | Mapping[str, str], *, properties: Mapping[str, str] | None = None) -> Catalog:
    """The catalog itself; arguments and errors as ``load_table``."""
    return _open_catalog(catalog, properties)[0]


def _open_catalog(catalog: str | Mapping[str, str], properties: Mapping[str, str] | None) -> tuple[Catalog, Patience]:
    """The catalog, and the patience that is left."""
    hide_environment(os.environ)
    if isinstance(catalog, str):
        name, resolved = catalog, dict(_configured(catalog) if properties is None else properties)
    else:
        resolved = {**catalog, **(properties or {})}
        name = resolved.pop("name", _DEFAULT_NAME)
    # Before anything can fail: errors of the catalog's client may quote any property.
    hide(resolved)
    resolved = usable_properties(name, resolved)
    # A reader must not make the catalog's own tables.
    resolved.setdefault("init_catalog_tables", "false")
    with catalog_errors(name, "open it"):
        patience = Patience.of(os.environ, place=f"catalog {name!r} at {resolved.get(URI, '')}")
        # All requests together are bounded from outside: most of the clients have no timeout of their own.
        opened = patience.wait_for(partial(_made, name, resolved, patience.seconds), "open")
    hide(opened.properties, only_secrets=True)
    return withhold_table_properties(opened), patience


def _configured(name: str) -> Mapping[str, Any]:
    config = read_configuration()
    with catalog_errors(name, "read PyIceberg's configuration"):
        found = config.get_catalog_config(name)
        known = sorted(config.get_known_catalogs())
    if found is None:
        near = difflib.get_close_matches(name.lower(), known, n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"it has {', '.join(known) or 'none'}"
        raise TerminalError(
            f"there is no catalog {name!r} in PyIceberg's configuration: {hint}; if it is an Airflow connection: "
            "outside Airflow only that configuration counts, so describe it in .pyiceberg.yaml or by "
            f"PYICEBERG_CATALOG__{name.upper()}__URI and the like",
            catalog=name,
        )
    return found


def _made(name: str, properties: dict[str, Any], silence_seconds: float) -> Catalog:
    if implementation := properties.get(PY_CATALOG_IMPL):
        module_name, _, class_name = implementation.rpartition(".")
        made: Catalog = getattr(importlib.import_module(module_name), class_name)(name, **properties)
        return made
    kind = _kind(name, properties)
    if kind is CatalogType.REST:
        from icefloe.iceberg.catalog.bounded_rest import BoundedRestCatalog

        return BoundedRestCatalog(name, properties, silence_seconds)
    # Properties are text, and botocore counts with this one.
    numbers = {key: int(value) for key, value in properties.items() if key == "glue.max-retries"}
    return AVAILABLE_CATALOGS[kind](name, {**properties, **numbers})


def _kind(name: str, properties: Mapping[str, Any]) -> CatalogType:
    """The type, its uri checked; no sentence quotes a property, which may hold a password."""
    known = {kind.value: kind for kind in CatalogType}
    given, uri = str(properties.get(TYPE, "")).lower(), str(properties.get(URI, ""))
    fitting = next((kind for kind, (form, _) in _URIS.items() if form.match(uri)), None)
    kind = known.get(given) if given else fitting
    if kind is None:
        raise TerminalError(
            f"catalog {name!r} has {'a type' if given else 'no type, and a uri'} that PyIceberg does not know: write "
            f"one of {', '.join(sorted(known))}",
            key="catalog.type",
        )
    if kind in _URIS and not _URIS[kind][0].match(uri):
        raise TerminalError(
            f"catalog {name!r} of type {kind.value} has {'a uri of another form' if uri else 'no uri'}: write one such "
            f"as {_URIS[kind][1]}; in an Airflow connection it is the field Host",
            key="catalog.uri",
        )
    scheme, _, path = uri.partition(":///")
    if scheme.startswith("sqlite") and path and not path.startswith((":memory:", "file:")):
        # SQLite would make an empty file, and the table would look unknown.
        file = Path(unquote(path.partition("?")[0]))
        if kind is CatalogType.SQL and not file.is_file():
            raise TransientError(f"catalog {name!r} does not answer: its database file {file} is missing")
    return kind


def _load(catalog: Catalog, table: str) -> Table:
    """With the metadata file read as `reading_metadata` and `decoded_metadata` do, in this thread."""
    FromInputFile.table_metadata = staticmethod(_table_metadata)  # type: ignore[method-assign]
    token = _LOADED_TABLE.set(table)
    try:
        return catalog.load_table(table)
    except FileGoneError as error:
        # No batch needs this file: nothing can be read of the table without it.
        raise TerminalError(f"catalog {catalog.name!r} names a metadata file that is gone: {error.sentence}") from error
    finally:
        _LOADED_TABLE.reset(token)


def _near(catalog: Catalog, table: str, patience: Patience) -> str:
    namespace, _, _ = table.rpartition(".")
    try:
        with catalog_errors(catalog.name, f"list the tables of {namespace}"):
            listed = patience.wait_for(partial(catalog.list_tables, namespace), f"list {namespace}")
    except NoSuchNamespaceError:
        return f": it has no namespace {namespace}"
    except (TerminalError, TransientError) as error:
        logger.info("no near names for table %s: %s", table, error)
        return ""
    near = difflib.get_close_matches(table, [".".join(identifier) for identifier in listed], n=3)
    return f": did you mean {' or '.join(near)}?" if near else ""


_LOADED_TABLE: Final[ContextVar[str | None]] = ContextVar("_LOADED_TABLE", default=None)


def withhold_table_properties(catalog: Catalog) -> Catalog:
    """The same catalog; its FileIOs now get no properties of tables."""
    if _is_rest(catalog):
        catalog._response_to_table = partial(_vended_table, catalog)  # type: ignore[attr-defined]  # noqa: SLF001
    else:
        catalog._load_file_io = partial(_own_file_io, catalog)  # type: ignore[method-assign]  # noqa: SLF001
    return catalog


def _table_metadata(input_file: InputFile, encoding: str = "utf-8") -> TableMetadata:
    if (table := _LOADED_TABLE.get()) is not None:
        with reading_metadata(table, "metadata file", input_file.location):
            return decoded_metadata(input_file, lambda plain: TableMetadataUtil.parse_raw(plain.decode(encoding)))
    with input_file.open() as stream:
        return FromByteStream.table_metadata(stream, encoding, Compressor.get_compressor(input_file.location))


def own_file_io(table: Table) -> FileIO:
    """The FileIO of a loaded table, free of the table's properties."""
    # A user's own class may have made its FileIO without the replaced method; a REST catalog's is free of them already.
    return table.io if _is_rest(table.catalog) else load_file_io(table.catalog.properties, table.metadata_location)


def _is_rest(catalog: Catalog) -> bool:
    # Its module takes a while to import; if it was never imported, no catalog is a REST catalog.
    # Another thread may be in the middle of its import.
    rest_catalog = getattr(sys.modules.get("pyiceberg.catalog.rest"), "RestCatalog", None)
    return rest_catalog is not None and isinstance(catalog, rest_catalog)


def _own_file_io(catalog: Catalog, properties: Mapping[str, str] | None = None, location: str | None = None) -> FileIO:
    del properties
    return exact(load_file_io(catalog.properties, location))


def _vended_table(catalog: Any, identifier: tuple[str, ...], response: Any) -> Table:
    location, vended = response.metadata_location, response.storage_credentials
    credentials = catalog._resolve_storage_credentials(vended, location)  # noqa: SLF001
    return Table(
        identifier=identifier,
        metadata=response.metadata,
        metadata_location=location,
        io=catalog._load_file_io({**response.config, **credentials}, location),  # noqa: SLF001
        catalog=catalog,
        config=response.config,
    )
