"""The commands that change a pipeline, as one kind of command: which pipeline they change, and which errors count."""

from argparse import Namespace
from collections.abc import Callable
from functools import wraps

from icefloe.batch.operations.outdated_errors import errors_count_if_unchanged
from icefloe.cli.pipeline_session import checkpoint_of, load_named_pipeline
from icefloe.cli.screen import Screen
from icefloe.pipeline.model import Pipeline


def changing_command(
    change: Callable[[Pipeline, Namespace, Screen], int],
) -> Callable[[Namespace, Screen], int]:
    """The command that changes the pipeline of ``PIPELINE``; see `errors_count_if_unchanged`."""

    @wraps(change)
    def command(arguments: Namespace, screen: Screen) -> int:
        pipeline = load_named_pipeline(arguments)
        checkpoint = checkpoint_of(pipeline, backfill_id=getattr(arguments, "backfill", None))
        with errors_count_if_unchanged(checkpoint, pipeline=pipeline.name):
            return change(pipeline, arguments, screen)

    return command
