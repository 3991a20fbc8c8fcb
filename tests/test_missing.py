import re
from pathlib import Path

import pytest

from support.missing import SKIP_NOTHING, missing, require_package

TESTS = Path(__file__).parent
ROOT = TESTS.parent
THE_ONE_WAY = {"support/missing.py": 1}
SKIP = re.compile(r"pytest\.skip\(|importorskip|mark\.skip")


def test_a_missing_tool_skips_the_test_on_the_machine_of_a_developer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SKIP_NOTHING, raising=False)
    with pytest.raises(pytest.skip.Exception, match="there is no Go: install golang"):
        missing("there is no Go", "install golang")


def test_a_missing_tool_fails_in_continuous_integration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SKIP_NOTHING, "1")
    with pytest.raises(pytest.fail.Exception, match="there is no Go: install golang"):
        missing("there is no Go", "install golang")
    with pytest.raises(pytest.fail.Exception, match="package no-such-package is not installed"):
        require_package("no_such.module", "no-such-package")
    require_package("pytest", "pytest")


def test_continuous_integration_skips_nothing() -> None:
    assert f"export {SKIP_NOTHING}=1" in (ROOT / ".ci" / "run").read_text().splitlines()


def test_no_test_is_left_out_by_another_way() -> None:
    found = {
        path.relative_to(TESTS).as_posix(): len(SKIP.findall(path.read_text()))
        for path in TESTS.rglob("*.py")
        if SKIP.search(path.read_text()) and path != Path(__file__)
    }
    assert found == THE_ONE_WAY
