"""Results of Spark tasks, with the executors that ran them.

Workers import this module before their libraries are known to be the driver's, so it imports none of them.
"""

import os
import socket
from collections.abc import Collection
from typing import Any, Generic, NamedTuple, TypeVar

from icefloe.errors import IcefloeError, TransientError

_Result = TypeVar("_Result")


class Executor(NamedTuple):
    """An executor of a Spark application.

    Attributes:
        host: the machine's name of itself.
        folders: where Spark keeps its blocks, of which no two executors have the same.
    """

    host: str
    folders: str

    @classmethod
    def here(cls) -> "Executor":
        """The executor of this Python worker."""
        return cls(socket.gethostname(), os.environ.get("SPARK_LOCAL_DIRS", ""))

    def refuse_if_in(self, avoided: Collection["Executor"], *, most_tries: int) -> None:
        """Gives the task of this worker back to Spark, which then keeps its stage away from this executor.

        The last try is never refused: Spark would end the job, and with it the tasks that run elsewhere.

        Args:
            avoided: executors on which tasks of the phase have failed.
            most_tries: number of failures of a task with which Spark ends the job.

        Raises:
            TransientError: this executor is avoided.
        """
        from pyspark import TaskContext

        context = TaskContext.get()
        if self in avoided and context is not None and context.attemptNumber() + 1 < most_tries:
            raise TransientError(f"tasks of this phase failed on host {self.host}: Spark gives this one to another")


class PlacedResult(NamedTuple, Generic[_Result]):
    """The result of a task, and the executor that ran it."""

    executor: Executor
    result: _Result

    @property
    def error(self) -> IcefloeError | None:
        """The error that the function returned, if it returned one as a part of a named tuple."""
        error = getattr(self.result, "error", None)
        return error if isinstance(error, IcefloeError) else None

    @property
    def may_do_better_elsewhere(self) -> bool:
        """True if the task failed by an error that another machine may not meet."""
        return isinstance(self.error, TransientError) and not self.error.is_met_everywhere

    def named(self) -> "PlacedResult[_Result]":
        """The same, with the host in the sentence of its error."""
        if self.error is None:
            return self
        return self._with(error=self.error.restated(f"{self.error.sentence}; it ran on host {self.executor.host}"))

    def after(self, earlier: "PlacedResult[_Result]") -> "PlacedResult[_Result]":
        """The same, with the requests of the try before."""
        before, now = getattr(earlier.result, "requests", None), getattr(self.result, "requests", None)
        return self if before is None or now is None else self._with(requests=before + now)

    def _with(self, **changes: object) -> "PlacedResult[_Result]":
        outcome: Any = self.result
        return self._replace(result=outcome._replace(**changes))
