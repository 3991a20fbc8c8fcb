"""Batches without a manifest among those that have one: readers of delivered files stop at them."""

from icefloe.batch.context.session import PipelineSession
from icefloe.sinks.files import FilesSink


def missing_manifests(session: PipelineSession) -> tuple[str, ...]:
    """A sentence for the first such batch. Those before the first manifest may be deleted, as everybody has read them.

    Args:
        session: session of the pipeline.
    """
    folder = session.delivered_folder
    found = folder.whole_batches() if isinstance(folder, FilesSink) else []
    missing = sorted(set(range(found[0], found[-1])) - set(found)) if found else []
    if folder is None or not missing:
        return ()
    number, name = missing[0], session.pipeline.name
    sentence = (
        f"batch {number} of {name} has no manifest in {session.settings.delivery['path']}, and later batches have one: "
        f"readers stop there; icefloe deliver {name} --batches {number} writes it"
    )
    return (sentence,)
