"""Which test takes care of a code block, told by where the block stands and how it looks."""

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

from support.pages.blocks import Block, all_blocks

__all__ = ["CLAIMS", "Claim", "Kind", "claim_of", "claimed"]


class Kind(Enum):
    """The kind of a block; the module of tests with its name takes care of it."""

    PIPELINE = "a pipeline file: loaded, and run with places of its own"
    KEYS = "some keys of a pipeline file: run in one, with places of its own"
    SHELL = "commands of a shell: run by one, with stand-ins for the programs, and then by the programs themselves"
    COMMAND_LIST = "a command on each line and what it does: each is run"
    PYTHON = "Python: executed"
    DBT = "a model of dbt: rendered, and run on DuckDB"
    FLOW = "the picture of the flow: held to the tasks of the DAG"
    PROTOCOL = "the picture of a batch's states: held to the table that commands decide by"
    LAYERS = "the layers: held to the contract of import-linter and to the folders"
    FOLDERS = "files and folders: held to what runs leave"
    MANIFEST = "a document of the files sink: held to one that a run wrote"
    GIT_REPOSITORY = "the files of a repository: a DAG bundle is made of one"
    HELM = "values of Airflow's Helm chart, which is not run: held to the settings that are"
    POLICY = "rights on S3: given to an account, with which batches are run"
    DEMO = "what the demo prints: held to what it prints"
    REQUESTS = "what the benchmark of requests prints: held to what it prints"
    SPARK_DEFAULTS = "Spark's own settings: checked against the real cluster and the compose file"
    SINK = "a package with a sink: installed, opened, and held to its own tests"
    NODE = "the configuration of a node: read by the node itself"
    NODE_SERVICE = "a service that runs a node: its command is read by the command line, and its keys are known ones"
    TABLE = "the command that creates a table: held to the one that an error prints, by which servers' tests create it"
    FORMULA = "a definition of the row hash: computed, and held to the reference in plain Python"


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """Blocks of a kind.

    Attributes:
        begins: a regular expression for the beginning of the text.
        page: of blocks that are like no other; None: on any page.
    """

    kind: Kind
    begins: str
    page: str | None = None

    def covers(self, block: Block) -> bool:
        """True if the block is one of them."""
        return self.page in (None, block.page) and re.match(self.begins, block.text) is not None


CLAIMS: Final = (
    Claim(kind=Kind.PIPELINE, begins=r"version: 1\n(.*\n)*table: "),
    Claim(kind=Kind.KEYS, begins=r"(checks|sink|spark|shuffle|schedule|default_args|allowed_locations):"),
    Claim(kind=Kind.PROTOCOL, begins="stateDiagram-v2"),
    Claim(kind=Kind.COMMAND_LIST, begins=r"((icefloe|make)( \S+)* {2,}[^# ].*\n)+\Z"),
    Claim(kind=Kind.SHELL, begins=r"(export|airflow|icefloe|make|eval|pip) "),
    Claim(kind=Kind.TABLE, begins=r"aws dynamodb create-table ", page="docs/deployment.md"),
    Claim(kind=Kind.PYTHON, begins=r"(from|import|with table|table)\b"),
    Claim(kind=Kind.DBT, begins=r"\{\{ config\(", page="docs/recipes.md"),
    Claim(kind=Kind.FLOW, begins=r"wait_for_snapshot -> "),
    Claim(kind=Kind.LAYERS, begins=r"dags/, spark_jobs/ ", page="docs/developers/architecture.md"),
    Claim(kind=Kind.FOLDERS, begins=r"<(storage|path)>/"),
    Claim(kind=Kind.GIT_REPOSITORY, begins=r"dags/icefloe_pipelines\.py ", page="docs/deployment.md"),
    Claim(kind=Kind.HELM, begins=r"airflowVersion: ", page="docs/deployment.md"),
    Claim(kind=Kind.MANIFEST, begins=r"\{", page="docs/sinks.md"),
    Claim(kind=Kind.DEMO, begins=r"Making an empty Iceberg table", page="README.md"),
    Claim(kind=Kind.POLICY, begins=r"\{\n +\"Version\": ", page="docs/operations.md"),
    Claim(kind=Kind.REQUESTS, begins=r"batch +get +put ", page="docs/operations.md"),
    Claim(kind=Kind.SPARK_DEFAULTS, begins=r"spark\.authenticate true\n", page="docs/spark.md"),
    Claim(
        kind=Kind.SINK,
        begins=r"\"\"\"(test_)?icefloe_sqlite\.py: |\[project\.entry-points",
        page="docs/developers/write_a_sink.md",
    ),
    Claim(kind=Kind.NODE, begins=r"# node\.yaml\n", page="docs/node_shuffle.md"),
    Claim(
        kind=Kind.NODE_SERVICE,
        begins=r"# .*\.service\n|services:\n|apiVersion: apps/v1\n",
        page="docs/node_shuffle.md",
    ),
    Claim(kind=Kind.FORMULA, begins=r"\w+(\(.*\))? +=|\w+\(.*\):", page="docs/developers/formats.md"),
)
"""The first that covers a block claims it."""


def claim_of(block: Block) -> Claim | None:
    """The claim that takes care of a block."""
    return next((claim for claim in CLAIMS if claim.covers(block)), None)


def claimed(kind: Kind) -> list[Block]:
    """All blocks of a kind."""
    return [block for block in all_blocks() if (claim := claim_of(block)) is not None and claim.kind is kind]
