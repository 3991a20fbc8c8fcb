import logging
import pickle
import threading
import traceback

import pytest

from icefloe.errors import TerminalError, TransientError, one_line
from icefloe.redacted_output import (
    ForeignError,
    OutgoingFilter,
    filter_root_logs,
    outgoing_errors,
    outgoing_logs,
    raise_outgoing,
    shown,
)
from icefloe.redaction.hidden import hide

SECRET = "xhq8v2-Lk7TnWz3RbYd5"


@pytest.fixture(autouse=True)
def _hidden(_nothing_is_hidden: None) -> None:
    hide({"token": SECRET})


class LibraryError(Exception):
    """Of a library: holds the request it made."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.request = {"Authorization": SECRET}


def test_a_sentence_of_ours_holds_no_secret_wherever_it_is_made() -> None:
    error = pickle.loads(pickle.dumps(TerminalError(f"refused {SECRET}", path="x")))
    assert (str(error), error.path) == ("refused ***", "x")


def test_foreign_text_is_hidden_before_it_is_cut_into_one_line() -> None:
    hide({"password": "first part\nsecond part"})
    assert one_line(ValueError(f"sent {SECRET}\nand first part\nsecond part")) == "sent *** and ***"


def test_causes_are_shown_without_what_they_hold() -> None:
    error, cause = TransientError("later"), TerminalError("no")
    error.__cause__, cause.__cause__ = cause, LibraryError(f"you sent {SECRET}")
    with pytest.raises(TransientError) as caught, outgoing_errors():
        raise error
    printed = "".join(traceback.format_exception(caught.value))
    assert "test_redacted_output.LibraryError: you sent ***" in printed
    assert SECRET not in printed
    assert caught.value.__cause__ is not None
    assert isinstance(caught.value.__cause__.__cause__, ForeignError)
    assert not hasattr(caught.value.__cause__.__cause__, "request")


def test_an_error_that_is_caught_by_its_type_keeps_it() -> None:
    with pytest.raises(KeyError, match=r"\*\*\*"), outgoing_errors():
        raise KeyError(SECRET)
    with pytest.raises(LibraryError, match="fine"), outgoing_errors():
        raise LibraryError("fine")


def test_an_error_that_always_says_its_secret_is_replaced() -> None:
    class StubbornError(Exception):
        def __str__(self) -> str:
            return f"always {SECRET}"

    with pytest.raises(ForeignError, match=r"StubbornError: always \*\*\*$") as caught, outgoing_errors():
        raise StubbornError
    assert caught.value.__context__ is None


def test_a_raised_error_leads_to_nothing_that_is_being_handled() -> None:
    def refuse() -> None:
        try:
            raise LibraryError(SECRET)
        except LibraryError as cause:
            raise_outgoing(TerminalError("no"), cause)

    with pytest.raises(TerminalError) as caught:
        refuse()
    assert str(caught.value.__cause__) == f"{LibraryError.__module__}.LibraryError: ***"
    assert caught.value.__context__ is None


def test_an_error_that_leads_to_itself_is_shown_once() -> None:
    error = ValueError(SECRET)
    error.__cause__ = error
    assert str(shown(error)) == "***"


class SilentError(Exception):
    """Of a library: fails when it is asked what is wrong."""

    def __str__(self) -> str:
        raise RuntimeError(SECRET)

    __repr__ = __str__


@pytest.mark.parametrize("error", [SilentError(), TransientError("later")])
def test_an_error_that_cannot_say_what_is_wrong_hides_no_other(error: Exception) -> None:
    error.__cause__ = SilentError()
    with pytest.raises(type(error)) as caught, outgoing_errors():
        raise error
    assert type(caught.value.__cause__) is ForeignError
    printed = "".join(traceback.format_exception(caught.value))
    assert "test_redacted_output.SilentError" in printed
    assert SECRET not in printed


def test_a_record_of_what_cannot_say_what_is_wrong_is_written(caplog: pytest.LogCaptureFixture) -> None:
    with outgoing_logs():
        logging.getLogger("other").warning("failed: %s, %s", SilentError(), SECRET)
    assert "failed: %s, %s" in caplog.text
    assert SECRET not in caplog.text


def test_a_record_with_named_arguments_quotes_others_too(caplog: pytest.LogCaptureFixture) -> None:
    with outgoing_logs():
        logging.getLogger("icefloe.x").warning("failed: %(cause)s", {"cause": LibraryError("password=abcdefgh")})
    assert caplog.messages == ["failed: password=***"]


def test_a_process_that_others_share_keeps_what_they_log(caplog: pytest.LogCaptureFixture) -> None:
    hide({"warehouse": "sales"})
    theirs = LibraryError("sales: token=abcdefgh")
    theirs.__cause__ = cause = LibraryError("the cause")
    said = "sales, https://me:pw@host/x?page=2, token=abcdefgh"
    filter_root_logs()
    try:
        logging.getLogger("their.trigger").warning("%s %s", said, SECRET)
        logging.getLogger("their.trigger").warning("failed", exc_info=theirs)
        logging.getLogger("their.trigger").warning("failed", exc_info=LibraryError(f"sent {SECRET}"))
        ours = threading.Thread(target=lambda: logging.getLogger("urllib3").warning("%s", said), name="icefloe-looks_0")
        ours.start()
        ours.join()
        logging.getLogger("icefloe.x").warning("%s, %s", LibraryError(said), SECRET)
    finally:
        for handler in logging.getLogger().handlers:
            handler.filters = [each for each in handler.filters if type(each) is not OutgoingFilter]
    hidden = "***, https://***@host/x?***, token=***"
    assert caplog.messages == [f"{said} ***", "failed", "failed", hidden, f"{hidden}, ***"]
    assert caplog.records[1].exc_info is not None
    assert caplog.records[1].exc_info[1] is theirs
    assert (theirs.args, theirs.__cause__) == (("sales: token=abcdefgh",), cause)
    assert SECRET not in caplog.text


def root_filters() -> list[OutgoingFilter]:
    return [f for handler in logging.getLogger().handlers for f in handler.filters if type(f) is OutgoingFilter]


def test_records_of_any_logger_are_filtered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    before = root_filters()
    with outgoing_logs():
        logging.getLogger("urllib3").debug("GET /v1?token=%s", SECRET)
        logging.getLogger("icefloe.x").warning("failed: %s", LibraryError(f"password={SECRET[::-1]}"))
        logging.getLogger("other").warning("does not fit %d %d", SECRET)
        try:
            raise LibraryError(SECRET)
        except LibraryError:
            logging.getLogger("other").exception("failed")
    assert caplog.messages[:2] == ["GET /v1?token=***", "failed: password=***"]
    assert SECRET not in caplog.text
    assert root_filters() == before, "what a trigger left in this process stays, and no more"


def test_the_log_of_a_process_without_handlers_is_filtered(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    with outgoing_logs():
        logging.getLogger("library_without_handlers").warning("sent %s", SECRET)
    assert capsys.readouterr().err == "sent ***\n"


FORGED = "s3://lake/a\x1b[2K\n2026-01-01 icefloe: verified\u202e"
SHOWN = r"s3://lake/a\x1b[2K\n2026-01-01 icefloe: verified\u202e"


def test_a_record_that_names_others_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    with outgoing_logs():
        logging.getLogger("icefloe.x").warning("reading %s", FORGED)
        logging.getLogger("icefloe.x").warning("failed: %s", FileNotFoundError(FORGED))
        logging.getLogger("icefloe.x").warning("reading %s", "x" * 1_000)
        logging.getLogger("pyiceberg.io").warning("reading %s", FORGED)
        logging.getLogger("pyiceberg.io").warning("does not fit %d", FORGED)
    assert caplog.messages[:2] == [f"reading {SHOWN}", f"failed: {SHOWN}"]
    assert len(caplog.messages[2]) == len("reading ") + 200
    assert caplog.messages[3] == f"reading {SHOWN}"
    assert "\n" not in caplog.messages[4]


def test_a_process_that_others_share_keeps_their_lines(caplog: pytest.LogCaptureFixture) -> None:
    filter_root_logs()
    try:
        logging.getLogger("their.trigger").warning("%s", FORGED)
        logging.getLogger("icefloe.x").warning("%s", FORGED)
    finally:
        for handler in logging.getLogger().handlers:
            handler.filters = [each for each in handler.filters if type(each) is not OutgoingFilter]
    assert caplog.messages == [FORGED, SHOWN]


def test_a_printed_cause_moves_no_cursor() -> None:
    error = TerminalError("no")
    error.__cause__ = LibraryError(FORGED)
    error.__cause__.__cause__ = ValueError(FORGED)
    printed = "".join(traceback.format_exception(shown(error)))
    assert "\x1b" not in printed
    assert "\u202e" not in printed
    assert not [line for line in printed.splitlines() if line.startswith("2026")]
