"""Keeps a table's own properties out of the FileIO that PyIceberg's catalogs make for it.

PyIceberg 0.12.0 merges a table's properties over those of its catalog, and loads the class that the merged
``py-io-impl`` names. So anyone who can write the table could send our signed requests to another endpoint, and run
code here. The private methods that do this are replaced in each catalog we open;
tests/iceberg/catalog/test_private_catalog.py pins them.

PyIceberg also decompresses and decodes metadata of any size. Its catalogs share the function that reads it, so that is
replaced for all of them; loads that are not ours go on as before.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from typing import Any, Final

from pyiceberg.catalog import Catalog
from pyiceberg.io import FileIO, InputFile, load_file_io
from pyiceberg.serializers import Compressor, FromByteStream, FromInputFile
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata, TableMetadataUtil

from icefloe.iceberg.catalog.file_io import exact
from icefloe.iceberg.catalog.metadata_errors import decoded_metadata

_IS_OURS: Final = ContextVar("_IS_OURS", default=False)


def withhold_table_properties(catalog: Catalog) -> Catalog:
    """The same catalog; it now makes FileIOs from its own properties and those that it hands out with a table."""
    if _is_rest(catalog):
        catalog._response_to_table = partial(_vended_table, catalog)  # type: ignore[attr-defined]  # noqa: SLF001
    else:
        catalog._load_file_io = partial(_own_file_io, catalog)  # type: ignore[method-assign]  # noqa: SLF001
    return catalog


@contextmanager
def metadata_bounded() -> Iterator[None]:
    """Lets a catalog decode, within this block and thread, no more than `decoded_metadata` does."""
    FromInputFile.table_metadata = staticmethod(_table_metadata)  # type: ignore[method-assign]
    token = _IS_OURS.set(True)
    try:
        yield
    finally:
        _IS_OURS.reset(token)


def _table_metadata(input_file: InputFile, encoding: str = "utf-8") -> TableMetadata:
    if _IS_OURS.get():
        return decoded_metadata(input_file, lambda plain: TableMetadataUtil.parse_raw(plain.decode(encoding)))
    with input_file.open() as stream:
        return FromByteStream.table_metadata(stream, encoding, Compressor.get_compressor(input_file.location))


def own_file_io(table: Table) -> FileIO:
    """The FileIO of a table that a catalog has loaded, free of the table's properties.

    The FileIO of a REST catalog is free of them already. Other catalogs hand no properties out with a table. A class of
    the user's own may have made its FileIO without the method that was replaced, so the FileIO is made here.
    """
    return table.io if _is_rest(table.catalog) else load_file_io(table.catalog.properties, table.metadata_location)


def _is_rest(catalog: Catalog) -> bool:
    # Its module takes a while to import; if it was never imported, no catalog is a REST catalog.
    rest = sys.modules.get("pyiceberg.catalog.rest")
    return rest is not None and isinstance(catalog, rest.RestCatalog)


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
