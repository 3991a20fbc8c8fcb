"""Airflow's own logs, without the values that this process hides: the log of a hook, and what Airflow masks.

Hooks log by structlog, whose lines pass none of the handlers that `outgoing_logs` filters. Airflow's own masker knows
what its connections hold, and nothing of the credentials that a catalog vends or that a library quotes.
"""

from collections.abc import Mapping
from typing import Any, Final

from airflow.sdk.log import mask_secret

from icefloe.redaction.hidden import redacted_foreign
from icefloe.redaction.secret_values import names_secret

_LEVELS: Final = ("debug", "info", "warning", "error", "exception", "critical")


class RedactedLog:
    """A logger that writes to another one.

    Args:
        log: the hook's own logger.
    """

    def __init__(self, log: Any) -> None:
        self._log = log

    def __getattr__(self, name: str) -> Any:
        """A method of the logger; those that write take hidden values out of what they are given."""
        method = getattr(self._log, name)
        if name not in _LEVELS:
            return method

        def write(event: object, *arguments: object, **values: object) -> object:
            hidden = {key: redacted_foreign(each) if isinstance(each, str) else each for key, each in values.items()}
            # Without arguments a % is no more than a character, here as in structlog.
            return method(redacted_foreign(_text(event, arguments)).replace("\n", "\\n"), **hidden)

        return write


def _text(event: object, arguments: tuple[object, ...]) -> str:
    try:
        return str(event) % arguments if arguments else str(event)
    except (TypeError, ValueError):
        return f"{event} {arguments}"


def mask_in_airflow(configuration: Mapping[str, object]) -> None:
    """Registers secrets with Airflow's masker, which judges the values of a connection by keys of its own."""
    for key, value in configuration.items():
        if isinstance(value, Mapping):
            mask_in_airflow(value)
        elif isinstance(value, str) and names_secret(key):
            mask_secret(value)
