import json
from http.server import BaseHTTPRequestHandler

import pytest

from demo.servers.free_port import free_port
from make.audit import main
from make.locks import LOCKS, ROOT, pins
from support.fakes.answering_server import Answer, answering_server

VERSIONS = {pin[:2] for lock in LOCKS.values() for pin in pins(ROOT / lock)}


def answer(results: list[object], status: int = 200) -> Answer:
    def give(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        return (status if request.path == "/v1/querybatch" else 404), {}, json.dumps({"results": results}).encode()

    return give


def test_each_vulnerability_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    ordered = sorted(VERSIONS)
    results: list[object] = [{} for _ in ordered]
    results[ordered.index(("pyspark", "4.1.3"))] = {"vulns": [{"id": "GHSA-1"}, {"id": "PYSEC-2"}]}
    with answering_server(answer(results)) as (url, _):
        monkeypatch.setenv("OSV_URL", url)
        assert main() == 1
    assert capsys.readouterr().out.splitlines() == [
        "pyspark 4.1.3: GHSA-1, https://osv.dev/GHSA-1",
        "pyspark 4.1.3: PYSEC-2, https://osv.dev/PYSEC-2",
        f"{len(VERSIONS)} versions were looked up; 2 vulnerabilities are known",
    ]


@pytest.mark.parametrize("results", [None, [], [{}]])
def test_a_database_that_cannot_be_asked_is_reported_in_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], results: list[object] | None
) -> None:
    with answering_server(answer(results or [], 200 if results is not None else 503)) as (url, _):
        monkeypatch.setenv("OSV_URL", url)
        assert main() == 2
    assert_one_line(capsys, url)
    monkeypatch.setenv("OSV_URL", url := f"http://127.0.0.1:{free_port()}")
    assert main() == 2
    assert_one_line(capsys, url)


def assert_one_line(capsys: pytest.CaptureFixture[str], url: str) -> None:
    out, err = capsys.readouterr()
    [line] = err.splitlines()
    assert out == ""
    assert line.startswith(f"make audit: nothing was looked up, because {url} gave no answer: ")
