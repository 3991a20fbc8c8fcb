"""Batches without a manifest among those that have one: readers of files stop at them."""

from icefloe.batch.context.session import PipelineSession
from icefloe.batch.ends.shown_ends import missing_numbers


def missing_manifests(session: PipelineSession) -> tuple[str, ...]:
    """A sentence for the first such batches. Those before the first manifest may be deleted: everybody has read them.

    Args:
        session: session of the pipeline.
    """
    folder, name = session.counted_folder, session.pipeline.name
    # One that was listed late may have come since.
    missing = [number for number in missing_numbers(folder) if folder is not None and folder.whole(number) is None]
    if not missing:
        return ()
    first = missing[0]
    count = next((index for index, number in enumerate(missing) if number != first + index), len(missing))
    numbers = str(first) if count == 1 else f"{first}-{first + count - 1}"
    if session.pipeline.delivers:
        way_out = f"icefloe deliver {name} --batches {numbers} writes it"
    else:
        way_out = f"icefloe reset {name} writes it, and the next run loads the table again"
    path = session.pipeline.sink.path
    sentence = (
        f"batch {numbers} of {name} has no manifest in {path}, and later batches have one: readers stop there; "
        f"{way_out}"
    )
    return (sentence,)
