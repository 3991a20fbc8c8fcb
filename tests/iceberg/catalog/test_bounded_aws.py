import sys
from types import ModuleType
from typing import Any

import pytest
from pyiceberg.catalog import BOTOCORE_SESSION

from icefloe.iceberg.catalog import bounded_catalogs


class Session:
    """The part of botocore's session that we use."""

    def set_default_client_config(self, config: Any) -> None:
        self.config = config


class SomeCatalog:
    def __init__(self, name: str, **properties: Any) -> None:
        self.name, self.properties = name, properties
        self.session = properties[BOTOCORE_SESSION]


@pytest.fixture(autouse=True)
def _botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an optional package of users of AWS."""
    config, session = ModuleType("botocore.config"), ModuleType("botocore.session")
    config.Config = dict
    session.get_session = Session
    for module in (ModuleType("botocore"), config, session):
        monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.mark.parametrize(("kind", "module"), [("Glue", "glue"), ("DynamoDb", "dynamodb")])
def test_clients_on_aws_get_timeouts_and_the_session_stays_out_of_the_properties(
    kind: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = ModuleType(f"pyiceberg.catalog.{module}")
    setattr(fake, f"{kind}Catalog", SomeCatalog)
    monkeypatch.setitem(sys.modules, fake.__name__, fake)
    catalog: Any = getattr(bounded_catalogs, f"bounded_{module}")("lake", {"glue.region": "x"}, 20.0)
    assert catalog.session.config == {"connect_timeout": 10.0, "read_timeout": 20.0}
    assert (catalog.name, catalog.properties) == ("lake", {"glue.region": "x"})
