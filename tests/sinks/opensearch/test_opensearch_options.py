from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.sinks.opensearch.opensearch_sink import open_opensearch_sink


@pytest.mark.parametrize(
    ("connection", "url"),
    [
        ({"host": "search.example", "port": 9200}, "https://search.example:9200"),
        ({"host": "search.example"}, "https://search.example"),
        ({"host": "search.example", "port": 9200, "extra": {"use_ssl": False}}, "http://search.example:9200"),
        ({"host": "search.example", "extra": {"use_ssl": "false"}}, "http://search.example"),
        ({"host": "http://search.example", "port": 9200}, "http://search.example:9200"),
        ({"host": "https://search.example/below", "port": 9200}, "https://search.example:9200/below"),
        ({"host": "https://search.example:443", "port": 9200}, "https://search.example:443"),
        ({"host": "http://[::1]", "port": 9200}, "http://[::1]:9200"),
    ],
)
def test_the_address_is_that_of_the_connection_with_its_port(connection: dict[str, Any], url: str) -> None:
    sink = open_opensearch_sink({"index": "people"}, connection=connection, open_store=lambda _: pytest.fail("unused"))
    assert sink.url == f"{url}/people"


@pytest.mark.parametrize(("written", "seconds"), [({}, None), ({"purge_after": "30d"}, 30 * 86_400.0)])
def test_marks_of_deleted_rows_are_purged_at_an_age_only_if_one_is_written(
    written: dict[str, str], seconds: float | None
) -> None:
    options = {"url": "http://search", "index": "people", **written}
    assert open_opensearch_sink(options, connection={}, open_store=lambda _: pytest.fail("x")).purge_after == seconds


@pytest.mark.parametrize("written", [30, 0, "30", "59m"])
def test_an_age_of_marks_that_somebody_forgot_the_unit_of_is_refused(written: str | int) -> None:
    options = {"url": "http://search", "index": "people", "purge_after": written}
    with pytest.raises(
        TerminalError, match=r"sink\.purge_after does not fit .* is less than an hour; a number without"
    ):
        open_opensearch_sink(options, connection={}, open_store=lambda _: pytest.fail("x"))


@pytest.mark.parametrize(
    "name", ["", "-a", "_a", "+a", ".", "..", ".a", "A", "é", "a b", "a,b", "a/b", "a" * 201, None]
)
def test_a_name_that_no_cluster_takes_is_refused(name: str | None) -> None:
    with pytest.raises(TerminalError, match=r"sink\.index is .*, which is no name of an index"):
        open_opensearch_sink(
            {"url": "http://search", "index": name}, connection={}, open_store=lambda _: pytest.fail("x")
        )


@pytest.mark.parametrize("secret", [{"login": "ada", "password": "pw"}, {"extra": {"api_key": "key"}}])
def test_credentials_cross_plain_http_only_if_the_connection_allows_it(secret: dict[str, Any]) -> None:
    connection = {"host": "http://search.example", "port": 9200, **secret}

    def opened(connection: dict[str, Any]) -> str:
        return open_opensearch_sink({"index": "people"}, connection=connection, open_store=lambda _: None).url  # type: ignore[arg-type, return-value]

    with pytest.raises(TerminalError, match=r"http://search\.example:9200 is not encrypted, so credentials and rows"):
        opened(connection)
    with pytest.raises(TerminalError, match="is not encrypted"):
        opened({**connection, "extra": {**secret.get("extra", {}), "allow_http": "false"}})
    allowed = {**connection, "extra": {**secret.get("extra", {}), "allow_http": True}}
    assert opened(allowed) == "http://search.example:9200/people"
    assert opened({**connection, "host": "https://search.example"}) == "https://search.example:9200/people"


@pytest.mark.parametrize(
    ("options", "connection"),
    [
        ({"url": "search.example:9200"}, {}),
        ({"url": "tcp://search.example:9200"}, {}),
        ({"url": "https://ada:pw@search.example"}, {}),
        ({}, {}),
        ({"url": "https://search.example", "index": "A"}, {}),
        ({"url": "https://search.example", "deletes": "none"}, {}),
        ({"url": "https://search.example", "duplicates": "keep"}, {}),
        ({"url": "https://search.example", "bulk_bytes": "much"}, {}),
        ({"url": "https://search.example", "shard": 1}, {}),
        ({}, {"host": "http://search.example", "password": "pw", "login": "ada"}),
        ({}, {"host": "search.example", "extra": {"verify_certs": False}}),
        ({}, {"host": "search.example", "extra": {"ca_certs": "/gone/ca.pem"}}),
        ({}, {"host": "search.example", "extra": {"ca_certs": True}}),
    ],
)
def test_a_key_that_does_not_fit_is_a_fault_of_the_file_for_each_command(
    options: dict[str, Any], connection: dict[str, Any]
) -> None:
    """`validate` ends with 65 for each of its checks that fail for good, so `run` must, too."""
    with pytest.raises(TerminalError) as error:
        open_opensearch_sink({"index": "people", **options}, connection=connection, open_store=lambda _: None)  # type: ignore[arg-type, return-value]
    assert error.value.exit_code == 65
