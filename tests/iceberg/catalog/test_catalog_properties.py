import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.catalog.catalog_properties import usable_properties
from icefloe.iceberg.catalog.catalogs import load_catalog
from support.fakes.answering_server import answering_server

SECRET = "xhq8v2-Lk7TnWz3RbYd5"


def asked_with(properties: dict[str, Any] | str, monkeypatch: pytest.MonkeyPatch, home: Path) -> list[str]:
    """The Authorization of each request that opening a catalog sends."""
    sent: list[str] = []

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        sent.append(request.headers.get("Authorization", ""))
        return 200, {"Content-Type": "application/json"}, json.dumps({"defaults": {}, "overrides": {}}).encode()

    with answering_server(answer) as (url, _):
        if isinstance(properties, str):
            (home / ".pyiceberg.yaml").write_text(properties.replace("{url}", url))
            monkeypatch.setenv("PYICEBERG_HOME", str(home))
            load_catalog("lab")
        else:
            load_catalog("lab", properties={"type": "rest", "uri": url, **properties})
    return sent


def test_a_mapping_for_auth_works_from_pyicebergs_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = f"""
catalog:
  lab:
    type: rest
    uri: {{url}}
    auth:
      type: basic
      basic:
        username: user
        password: {SECRET}
"""
    assert asked_with(file, monkeypatch, tmp_path) == ["Basic dXNlcjp4aHE4djItTGs3VG5XejNSYllkNQ=="]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\n\n"])
def test_a_mounted_token_may_end_in_a_line_break(end: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = asked_with({"token": f"{SECRET}{end}"}, monkeypatch, tmp_path)
    assert sent == [f"Bearer {SECRET}"]


@pytest.mark.parametrize("key", ["token", "header.X-Api-Key", "s3.access-key-id", "s3.session-token", "uri"])
def test_a_line_break_in_the_middle_is_named_and_not_shown(key: str) -> None:
    with pytest.raises(TerminalError, match=f"property '{key}' holds a line break") as caught:
        usable_properties("lab", {key: f"{SECRET}\nx"})
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("key", ["auth", "ssl"])
def test_a_text_for_a_mapping_is_refused_in_one_sentence(key: str) -> None:
    with pytest.raises(TerminalError, match=f"property '{key}' must be a mapping") as caught:
        usable_properties("lab", {key: f"{{'password': '{SECRET}'}}"})
    assert SECRET not in str(caught.value)


def test_other_values_stay_as_they_are() -> None:
    key = "-----BEGIN KEY-----\nabc\n-----END KEY-----"
    found = usable_properties("lab", {"gcs.key": key, "rest.sigv4-enabled": True, "auth": {"a": {"b": "c\n"}}})
    assert found == {"gcs.key": key, "rest.sigv4-enabled": True, "auth": {"a": {"b": "c"}}}
