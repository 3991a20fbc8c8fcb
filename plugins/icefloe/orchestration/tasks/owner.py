"""The owner that writes to checkpoints: one Airflow is one owner, with any number of schedulers and workers."""

import logging
import os
import uuid
from typing import TYPE_CHECKING, Final

from icefloe.errors import TransientError

if TYPE_CHECKING:
    from icefloe.checkpoint.records import Writer


logger = logging.getLogger(__name__)

OWNER_VARIABLE: Final = "icefloe_owner"
"""The Airflow Variable that keeps the owner's UUID."""
_DESCRIPTION: Final = "the owner of icefloe's checkpoints: this Airflow"


def current_writer() -> "Writer":
    """The owner of this Airflow and the run of the current task, if there is one.

    A callback in the DAG processor has no current task. If it cannot read the owner, it writes as nobody in particular.
    """
    from airflow.sdk import Variable, get_current_context

    from icefloe.checkpoint.ownership import owner_of
    from icefloe.checkpoint.records import Writer

    try:
        run = get_current_context()["dag_run"]
    except RuntimeError:
        return Writer(owner=owner_of(os.environ) or Variable.get(OWNER_VARIABLE, default=None))
    return Writer(owner=owner_of(os.environ) or _variable(), run=f"{run.dag_id} {run.run_id}")


def make_owner() -> None:
    """Makes the Variable as a component starts that has Airflow's database.

    Tasks cannot make it: they cannot create a Variable only if it is missing, so two tasks at once would each set their
    own. The database can: the key of a Variable is unique in it.
    """
    from airflow.models.variable import Variable
    from airflow.utils.session import create_session
    from sqlalchemy.exc import IntegrityError

    try:
        with create_session() as session:
            if session.query(Variable).filter(Variable.key == OWNER_VARIABLE).first() is None:
                session.add(Variable(key=OWNER_VARIABLE, val=uuid.uuid4().hex, description=_DESCRIPTION))
    except IntegrityError:
        logger.info("another scheduler made the Variable %s", OWNER_VARIABLE)


def _variable() -> str:
    """The owner that the Variable names.

    A task never makes it. To a task, an API server that does not answer looks like a missing Variable, and every
    checkpoint would refuse a new owner.

    Raises:
        TransientError: it cannot be read.
    """
    from airflow.sdk import Variable

    owner = Variable.get(OWNER_VARIABLE, default=None)
    if owner is None:
        raise TransientError(
            f"the Airflow Variable {OWNER_VARIABLE} cannot be read: Airflow's API server does not answer, or no "
            "scheduler with icefloe's plugin has started yet; try again, or set ICEFLOE_OWNER where tasks run"
        )
    return str(owner)
