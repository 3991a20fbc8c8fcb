"""The sink that a folder of dead letters belongs to: one document at its root, created by the first sink."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, Literal

from pydantic import ConfigDict

from icefloe.documents import LEFT_OUT_IF_NONE, STRICT, dump_document, load_document
from icefloe.errors import TerminalError
from icefloe.storage.keys import join_url
from icefloe.storage.store import Store

_MARKER: Final = "_sink.json"


class OtherSinkError(TerminalError):
    """The folder has the dead letters of another sink."""

    url: str
    sink: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterSink:
    """``_sink.json``: the sink that refused what a folder keeps.

    Attributes:
        sink: its type and the name of its index or topic, for example ``index people``.
        cluster: the cluster's own id of itself, which stays when its address changes; None if it tells nobody.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    sink: str
    cluster: Annotated[str | None, LEFT_OUT_IF_NONE] = None

    def __str__(self) -> str:
        """The sink in words, for errors."""
        return self.sink if self.cluster is None else f"{self.sink} of cluster {self.cluster}"

    def may_be(self, other: "DeadLetterSink") -> bool:
        """True unless the two are known to differ.

        >>> people = DeadLetterSink(sink="index people", cluster="a")
        >>> people.may_be(DeadLetterSink(sink="index people")), people.may_be(DeadLetterSink(sink="index other"))
        (True, False)
        """
        is_known = self.cluster is not None and other.cluster is not None
        return self.sink == other.sink and (not is_known or self.cluster == other.cluster)


def claim_for_sink(store: Store, sink: DeadLetterSink, *, takes_over: bool = False) -> None:
    """Make a folder a sink's own unless it is another's; of many sinks that come at once, one gets it.

    Args:
        store: the folder.
        sink: the sink.
        takes_over: True if the letters of another sink count no more.

    Raises:
        OtherSinkError: the folder is another sink's.
    """
    if takes_over:
        store.put(_MARKER, dump_document(sink))
    elif store.find(_MARKER) is None:
        store.create(_MARKER, dump_document(sink))
    refuse_other_sink(store, sink)


def refuse_other_sink(store: Store, sink: DeadLetterSink) -> None:
    """Raise if the folder is another sink's; a folder that says nothing of its sink may be anybody's.

    Raises:
        OtherSinkError: it is.
    """
    data, url = store.find(_MARKER), join_url(store.url, _MARKER)
    found = None if data is None else load_document(DeadLetterSink, data, what=f"the marker {url}")
    if found is not None and not found.may_be(sink):
        raise OtherSinkError(
            f"{store.url} keeps dead letters of {found}, as {url} says, not of {sink}: give each sink a "
            "sink.dead_letters.path of its own; if that is the same sink on a new cluster, delete that file",
            url=store.url,
            sink=str(found),
        )
