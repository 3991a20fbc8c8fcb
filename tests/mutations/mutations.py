"""All mutations."""

from typing import Final

from mutations.airflow_tasks import AIRFLOW_TASKS
from mutations.changes import CHANGES
from mutations.commands import COMMANDS
from mutations.deletes import DELETES
from mutations.deliveries import DELIVERIES
from mutations.machines import MACHINES
from mutations.map_outputs import MAP_OUTPUTS
from mutations.nodes import NODES
from mutations.operators import OPERATORS
from mutations.page_rights import PAGE_RIGHTS
from mutations.page_states import PAGE_STATES
from mutations.promises import PROMISES
from mutations.protocol import PROTOCOL
from mutations.rows import ROWS
from mutations.schedules import SCHEDULES
from mutations.search_documents import SEARCH_DOCUMENTS
from mutations.search_index import SEARCH_INDEX
from mutations.search_reads import SEARCH_READS
from mutations.settings import SETTINGS
from mutations.spark_jobs import SPARK_JOBS
from mutations.steps import STEPS
from mutations.stores import STORES
from mutations.tables import TABLES
from mutations.topics import TOPICS
from mutations.upkeep import UPKEEP
from mutations.waits import WAITS

__all__ = ["MUTATIONS"]

MUTATIONS: Final = (
    *DELETES, *STEPS, *ROWS, *CHANGES, *PROTOCOL, *OPERATORS, *MACHINES, *STORES, *SETTINGS, *MAP_OUTPUTS, *UPKEEP,
    *PROMISES, *WAITS, *SCHEDULES, *PAGE_RIGHTS, *PAGE_STATES, *DELIVERIES, *SEARCH_INDEX, *SEARCH_DOCUMENTS,
    *SEARCH_READS, *TOPICS, *NODES, *TABLES, *AIRFLOW_TASKS, *SPARK_JOBS, *COMMANDS,
)  # fmt: skip
