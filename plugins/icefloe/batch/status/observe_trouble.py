"""Tasks of a run without Airflow, observed: one that fails is recorded in the pipeline's status."""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import TypeAlias

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.status.pipeline_status import Trouble
from icefloe.batch.status.publish_status import publish_trouble
from icefloe.errors import IcefloeError, TerminalError
from icefloe.patience import answer_within, brief_seconds, patience_seconds

__all__ = ["Observer", "recording_trouble"]

Observer: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Called with the name of each task of the DAG; the context is entered when it starts and left when it ends."""


def recording_trouble(session: PipelineSession, observe: Observer) -> Observer:
    """The same observer, which also records a failed task in the pipeline's status.

    A pipeline that never began has no status: whoever runs it reads the sentence.
    """

    @contextmanager
    def observed(task: str) -> Iterator[object]:
        try:
            with observe(task) as observing:
                yield observing
        except IcefloeError as error:
            trouble = Trouble.now(error.sentence, phase=task, is_final=isinstance(error, TerminalError))

            def record() -> None:
                if session.checkpoint.pipeline() is not None:
                    publish_trouble(session.checkpoint, session.pipeline, trouble, writer=session.writer)

            with suppress(IcefloeError, TimeoutError):  # perhaps the store failed
                answer_within(brief_seconds(patience_seconds(os.environ)), record)
            raise

    return observed
