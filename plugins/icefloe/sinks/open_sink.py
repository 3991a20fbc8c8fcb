"""From a pipeline's ``sink`` to a sink that delivers."""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, TypeAlias

from icefloe.errors import TerminalError
from icefloe.pipeline.settings import OUR_SINKS, registered_sinks
from icefloe.sinks.sink import Sink
from icefloe.storage.store import Store

__all__ = ["open_sink"]

SinkFactory: TypeAlias = Callable[..., Sink]
"""Makes a sink: ``factory(options, *, connection, open_store)``; see `open_sink`."""


class UnknownSinkError(TerminalError):
    """No installed package has a sink of this type."""

    sink_type: str


def open_sink(
    settings: Mapping[str, Any], *, connection: Mapping[str, Any], open_store: Callable[[str], Store]
) -> Sink:
    """The sink that a pipeline describes. It is opened in each process that needs it, and closed there.

    Args:
        settings: the pipeline's ``sink`` as `SinkSettings` has it: ``type``, and the other keys in ``options``, with
            ``${ENV}`` expanded.
        connection: the Airflow connection of ``sink.conn_id``: ``conn_type``, ``host``, ``port``, ``schema``,
            ``login``, ``password`` and ``extra``, a mapping. Empty: there is none.
        open_store: opens a folder of the pipeline's storage, such as that of dead letters, by its URL.

    Raises:
        UnknownSinkError: no package that is installed here has such a sink.
        TerminalError: the keys do not fit.
    """
    return _factory(settings["type"])(settings["options"], connection=connection, open_store=open_store)


def _factory(sink_type: str) -> SinkFactory:
    registered = registered_sinks()
    if factory := OUR_SINKS[sink_type].factory if sink_type in OUR_SINKS else "":
        module, _, name = factory.partition(":")
        return getattr(import_module(module), name)
    if sink_type not in registered:
        known = ", ".join(sorted({*OUR_SINKS, *registered}))
        raise UnknownSinkError(
            f"sink.type is {sink_type!r}, but no package that is installed here has such a sink; expected one of "
            f"{known}: correct it, or install the package wherever tasks run",
            key="sink.type",
            sink_type=sink_type,
        )
    return registered[sink_type].load()
