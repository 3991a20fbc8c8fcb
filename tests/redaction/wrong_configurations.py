"""Wrong configurations of catalogs and stores, each with a secret planted in it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from redaction.echo_server import ISSUED

__all__ = ["CASES", "SECRET", "VARIED_CASES", "Case"]

SECRET = "Zq7pL+9w/x&Vt2=kJ%mN5"
"""Has what URLs, forms and base64 change."""
PLAIN = "xhq8v2-Lk7TnWz3RbYd5"
"""Stands where a URL must stay one."""
QUOTED = "Zq7pL%2B9w%2Fx%26Vt2%3DkJ%25mN5"
GOOD_STORE = {
    "access_key_id": "AKIA0000",
    "secret_access_key": "none-of-it",
    "region": "us-east-1",
    "endpoint": "{closed}",
    "allow_http": "true",
}


@dataclass(frozen=True, kw_only=True)
class Case:
    """One wrong configuration; ``{server}`` in it is a server that echoes, ``{closed}`` a port where nobody listens.

    Attributes:
        catalog: properties; None: a catalog that works.
        storage: options of an S3 store, or of the one at ``url``.
        environ: variables of the process.
        secrets: what must be found nowhere.
    """

    name: str
    catalog: Mapping[str, Any] | None = None
    storage: Mapping[str, str] | None = None
    url: str = "s3://lake/icefloe"
    environ: Mapping[str, str] = field(default_factory=dict)
    secrets: Sequence[str] = (SECRET,)

    def __str__(self) -> str:
        return self.name


def rest(name: str, mode: str = "401", *, secrets: Sequence[str] = (SECRET,), **properties: Any) -> Case:
    catalog = {"type": "rest", "uri": f"{{server}}/{mode}", **properties}
    return Case(name=name, catalog=catalog, secrets=secrets)


def s3(name: str, *, secrets: Sequence[str] = (SECRET,), **options: str) -> Case:
    return Case(name=name, storage={**GOOD_STORE, **options}, secrets=secrets)


def table(name: str, *, secrets: Sequence[str] = (SECRET,), **options: str) -> Case:
    """A store at a closed port, and the table that coordinates it."""
    good = {
        **GOOD_STORE,
        "endpoint": "{server}/404",
        "coordination": "dynamodb://icefloe",
        "dynamodb_endpoint": "{server}",
        "dynamodb_allow_http": "true",
        "dynamodb_region": "us-east-1",
        "dynamodb_access_key_id": "AKIA0000",
        "dynamodb_secret_access_key": "none-of-it",
    }
    return Case(name=name, storage={**good, **options}, secrets=secrets)


CASES = [
    rest("a token and a server that echoes 401", token=SECRET),
    rest("a token that ends in a line break", token=f"{SECRET}\n"),
    rest("a token with a line break inside", token=f"{SECRET}\n{PLAIN}", secrets=(SECRET, PLAIN)),
    rest("a token and a server error in plain text", "500-text", token=SECRET),
    rest("a token and an answer that is none", "200-garbage", token=SECRET),
    rest("a token and an answer that is no JSON", "200-text", token=SECRET),
    rest("a credential that the token endpoint refuses", credential=f"client-id:{SECRET}"),
    rest("a credential without an id", credential=SECRET),
    rest("a credential and a token endpoint that answers nonsense", "200-garbage", credential=f"client-id:{SECRET}"),
    rest("a token that the server issued", "grant", credential=f"client-id:{SECRET}", secrets=(SECRET, ISSUED)),
    rest("a header that is refused", "403", **{"header.X-Api-Key": SECRET}),
    rest("a header with a line break", **{"header.Authorization": f"Bearer {SECRET}\nX: y"}),
    rest("a header that begins with a blank", **{"header.Authorization": f" {SECRET}"}),
    rest("a token in the name of the warehouse", "404", warehouse=SECRET),
    rest("a token as the prefix", prefix=SECRET),
    rest("a wrong implementation of files", token=SECRET, **{"py-io-impl": f"{PLAIN}.FileIO"}, secrets=(SECRET, PLAIN)),
    rest("basic authentication", auth={"type": "basic", "basic": {"username": "user", "password": SECRET}}),
    rest("authentication of no known type", auth={"type": SECRET}),
    rest("authentication that is a text", auth=f"{{'type': 'basic', 'password': '{SECRET}'}}"),
    rest("authentication without its type", auth={"basic": {"username": "user", "password": SECRET}}),
    rest("authentication with a text for its settings", auth={"type": "basic", "basic": SECRET}),
    rest("authentication with an unknown setting", auth={"type": "basic", "basic": {"passwort": SECRET}}),
    rest(
        "authentication by a token endpoint that refuses",
        auth={
            "type": "oauth2",
            "oauth2": {"client_id": "user", "client_secret": SECRET, "token_url": "{server}/401/oauth"},
        },
    ),
    rest("a certificate that is a text", ssl=SECRET),
    Case(name="an address without a scheme", catalog={"type": "rest", "uri": f"catalog.example.com?token={SECRET}"}),
    Case(name="a user without a scheme", catalog={"type": "rest", "uri": f"user:{SECRET}@catalog.example.com"}),
    Case(name="a token in place of the address", catalog={"type": "rest", "uri": SECRET}),
    Case(name="a user in the address", catalog={"type": "rest", "uri": f"http://user:{QUOTED}@{{closed_host}}/"}),
    Case(name="a user in the address, unquoted", catalog={"type": "rest", "uri": f"http://user:{SECRET}#@{{closed_host}}/"}),
    Case(name="a token before the host", catalog={"type": "rest", "uri": f"http://{QUOTED}@{{closed_host}}/"}),
    Case(name="a token in the query", catalog={"type": "rest", "uri": f"{{server}}/500-text?token={QUOTED}"}),
    Case(name="a token in a query that nobody answers", catalog={"type": "rest", "uri": f"{{closed}}?sig={QUOTED}"}),
    Case(name="a token in the path", catalog={"type": "rest", "uri": f"{{server}}/404/{PLAIN}"}, secrets=(PLAIN,)),
    Case(name="a token as the type", catalog={"type": SECRET, "uri": "x"}),
    Case(name="no address", catalog={"type": "rest", "token": SECRET}),
    Case(name="no type", catalog={"token": SECRET}),
    Case(
        name="a class that is not there",
        catalog={"py-catalog-impl": f"{PLAIN}.Catalog", "token": SECRET},
        secrets=(PLAIN, SECRET),
    ),
    Case(name="a class without a module", catalog={"py-catalog-impl": PLAIN, "token": SECRET}, secrets=(PLAIN, SECRET)),
    Case(name="a database that refuses", catalog={"type": "sql", "uri": f"postgresql+psycopg2://user:{QUOTED}@{{closed_host}}/db"}),
    Case(name="a database of no known kind", catalog={"type": "sql", "uri": f"nonsense://user:{QUOTED}@host/db"}),
    Case(name="a database with a broken address", catalog={"type": "sql", "uri": f"postgresql://user:{SECRET}@host:port/db"}),
    Case(name="a database file that is not there", catalog={"type": "sql", "uri": f"sqlite:////nowhere/x.db?key={QUOTED}"}),
    Case(name="a metastore", catalog={"type": "hive", "uri": f"thrift://user:{QUOTED}@{{closed_host}}"}),
    Case(name="Glue", catalog={"type": "glue", "glue.access-key-id": "AKIA0000", "glue.secret-access-key": SECRET}),
    s3("a key id with a line break inside", access_key_id=f"{PLAIN}\n{SECRET}", secrets=(PLAIN, SECRET)),
    s3("a session token with a line break inside", session_token=f"{SECRET}\nx"),
    s3("a session token that ends in a line break", session_token=f"{SECRET}\n", endpoint="{server}/403-xml"),
    s3("a secret key that ends in a line break", secret_access_key=f"{SECRET}\n", endpoint="{server}/403-xml"),
    s3("a key id and a store that echoes", access_key_id=SECRET, endpoint="{server}/403-xml"),
    s3("a store that answers wrong requests with an echo", session_token=SECRET, endpoint="{server}/400-xml"),
    s3("a store that breaks", session_token=SECRET, endpoint="{server}/500-text"),
    s3("an endpoint without a scheme", endpoint=f"{PLAIN}.example.com", secrets=(PLAIN,)),
    s3("an endpoint with a user", endpoint=f"https://user:{QUOTED}@s3.example.com"),
    s3("an endpoint with a query", endpoint=f"https://s3.example.com?token={QUOTED}"),
    s3("an option that is unknown", bogus_key=SECRET),
    s3("an option of another type", conditional_put=SECRET),
    s3("a time that is none", timeout=SECRET),
    s3("a region that is none", region=f"{SECRET}\u2028"),
    table("a key id and a table that echoes", dynamodb_access_key_id=SECRET),
    table(
        "a secret key with a line break inside and a table",
        dynamodb_secret_access_key=f"{SECRET}\n{PLAIN}",
        secrets=(SECRET, PLAIN),
    ),
    table("a session token and a table that echoes", dynamodb_session_token=SECRET),
    table("a session token with a line break inside and a table", dynamodb_session_token=f"{SECRET}\nx"),
    table("a token and a table that nobody serves", dynamodb_session_token=SECRET, dynamodb_endpoint="{closed}"),
    table("a table at an endpoint with a user", dynamodb_endpoint=f"https://user:{QUOTED}@dynamodb.example.com"),
    table("a table at an endpoint that is none", dynamodb_endpoint=SECRET),
    table("a table in a region that is none", dynamodb_region=SECRET),
    table("a table and an option that is unknown", dynamodb_bogus=SECRET),
    table("a table whose name is a secret", coordination=SECRET),
    Case(name="an account of Google that is none", storage={"service_account_key": SECRET}, url="gs://lake/icefloe"),
    Case(name="an Azure key that is none", storage={"account_name": "lake", "account_key": SECRET}, url="abfss://box@lake.dfs.core.windows.net/icefloe"),
    Case(name="a shared access signature that is none", storage={"account_name": "lake", "sas_token": SECRET}, url="abfss://box@lake.dfs.core.windows.net/icefloe"),
    Case(
        name="a session token in the environment with a line break",
        storage={},
        environ={
            "AWS_ACCESS_KEY_ID": "AKIA0000", "AWS_SECRET_ACCESS_KEY": "none", "AWS_SESSION_TOKEN": f"{SECRET}\nx",
        },
    ),
]  # fmt: skip
VARIED_CASES = [
    case
    for case in CASES
    if case.name in {
        "a token that ends in a line break", "a credential that the token endpoint refuses", "basic authentication",
        "a user in the address", "a class that is not there", "a database that refuses",
        "a session token with a line break inside", "a key id and a store that echoes",
        "a key id and a table that echoes", "a table whose name is a secret", "an Azure key that is none",
        "a session token in the environment with a line break",
    }
]  # fmt: skip
"""One or two of each kind: what their texts hold is found in other outlets."""
