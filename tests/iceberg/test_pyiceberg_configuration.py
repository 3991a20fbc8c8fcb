from pathlib import Path

import pytest

from icefloe.errors import TerminalError
from icefloe.iceberg.unreadable import read_configuration
from support.pipelines.workspace import Workspace, icefloe_process

SECRET = "xhq8v2-Lk7TnWz3RbYd5"
WRONG = {
    "a line without a colon": (f"catalog:\n  lab:\n    token {SECRET}\n    uri: x\n".encode(), "Error"),
    "a key twice": (f"catalog:\n  lab:\n    token: {SECRET}\n    token: {SECRET}\n".encode(), "Disallowed"),
    "a flow mapping": (f"catalog: {{lab: {{token: {SECRET}}}}}\n".encode(), "FlowMappingDisallowed"),
    "a list": (f"- token: {SECRET}\n".encode(), "AttributeError"),
    "Latin-1": (f"catalog:\n  lab:\n    token: {SECRET}\xe9\n".encode("latin-1"), "UnicodeDecodeError"),
}


@pytest.mark.parametrize("name", [*WRONG, "a variable that contradicts another"])
def test_a_wrong_configuration_is_one_sentence_and_no_cause_is_left_that_quotes_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "cannot be read .ValueError"
    if name in WRONG:
        data, reason = WRONG[name]
        said = f"PyIceberg's configuration, .* cannot be read .*({reason})"
        (tmp_path / ".pyiceberg.yaml").write_bytes(data)
        monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))
    else:
        monkeypatch.setenv("PYICEBERG_CATALOG__LAB", SECRET)
        monkeypatch.setenv("PYICEBERG_CATALOG__LAB__TOKEN", SECRET)
    with pytest.raises(TerminalError, match=said) as caught:
        read_configuration()
    assert (caught.value.__cause__, caught.value.__context__) == (None, None)
    assert SECRET not in str(caught.value)


# PyIceberg reads the file as it is imported, so this needs a process that has not imported it.
@pytest.mark.slow
def test_a_command_says_no_word_of_a_wrong_file(tmp_path: Path) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(f"catalog:\n lab:\n    uri: x\n   token: {SECRET}\n")
    pipeline = Workspace.create(tmp_path).pipeline(catalog="lab")
    done = icefloe_process("validate", pipeline, HOME=str(tmp_path), PYICEBERG_HOME=str(tmp_path))
    assert done.code == 65, done.err
    assert SECRET not in done.out + done.err
    assert "Traceback" not in done.err
    assert "Error" in done.out + done.err
