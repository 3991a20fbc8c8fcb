"""Error documents, by which a Spark application reports its failure to the process that started it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from pydantic import ConfigDict

from icefloe.batch.batch_keys import error_key
from icefloe.batch.context.references import BatchReference
from icefloe.batch.fenced_store import FencedStore, taken_back_if_over
from icefloe.documents import STRICT, dump_document, load_document
from icefloe.errors import IcefloeError, TerminalError, TransientError
from icefloe.redaction.hidden import redacted
from icefloe.storage.store import KeyMissingError

__all__ = ["JobError", "load_job_error", "save_job_error"]

_JSON = (str, int, float, bool, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class JobError:
    """The error of a failed attempt of a phase.

    Attributes:
        family: ``terminal``: retrying cannot help; ``transient``: it may.
        sentence: sentence that the user reads.
        facts: facts of the error, as far as JSON can hold them, without secrets.
    """

    __pydantic_config__: ClassVar[ConfigDict] = STRICT

    version: Literal[1] = 1
    family: Literal["terminal", "transient"]
    sentence: str
    facts: Mapping[str, Any]

    def as_error(self) -> IcefloeError:
        """The error of its family, to be raised by whoever started the job."""
        family = TerminalError if self.family == "terminal" else TransientError
        return family(self.sentence, **self.facts)


def save_job_error(reference: BatchReference, phase: str, attempt: str, error: IcefloeError) -> JobError:
    """Writes the error next to the plan, unless the batch is over: whoever started the job finds that out by itself."""
    facts = {name: _shown(value) for name, value in error.facts.items() if isinstance(value, _JSON)}
    family: Literal["terminal", "transient"] = "terminal" if isinstance(error, TerminalError) else "transient"
    document = JobError(family=family, sentence=redacted(error.sentence), facts=facts)
    store = FencedStore(reference.folder)
    with taken_back_if_over(store, reference.is_over):
        store.put(error_key(phase, attempt), dump_document(document))
    return document


def _shown(fact: Any) -> Any:
    return redacted(fact) if isinstance(fact, str) else fact


def load_job_error(reference: BatchReference, phase: str, attempt: str) -> JobError | None:
    """The error of an attempt; None if it died without writing one."""
    store = reference.folder
    key = error_key(phase, attempt)
    try:
        return load_document(JobError, store.get(key), what=f"the error document {store.url}/{key}")
    except KeyMissingError:
        return None
