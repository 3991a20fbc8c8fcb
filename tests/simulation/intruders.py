"""Intruders: other deployments and pipelines that got the same checkpoint or the same sink by mistake."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random

from simulation.cursor_path import UNDELIVERED
from simulation.held import owner_of
from simulation.promises import BrokenPromiseError, Places
from simulation.scenario import NAMESAKE, Keys, pipeline_of
from simulation.stage import Deployment, Stage
from simulation.world import ROOT

__all__ = ["checkpoint_of", "deployment_of", "healed_deployment", "intruders_among"]


def deployment_of(keys: Keys, actors: Sequence[str]) -> Deployment:
    """The pipeline of a scenario. It has an owner if a rival is among its actors, as the documentation asks for."""
    return Deployment(pipeline=pipeline_of(keys), owner="ours" if "rival" in actors else None)


def intruders_among(keys: Keys, actors: Sequence[str], randoms: Mapping[str, Random]) -> dict[str, Deployment]:
    """The pipelines of a scenario that are there by mistake, by the names of their actors.

    A rival is another deployment of the same file. A namesake has a checkpoint of its own and the same sink, like a
    pipeline that was removed and made again. It may take an index over, but no path of files.
    """
    ours, found = deployment_of(keys, actors), {}
    if "rival" in actors:
        found["rival"] = replace(ours, owner="theirs", takes_over=randoms["rival"].random() < 0.5)
    if "namesake" in actors:
        other = [("checkpoint", f"{ROOT}/{NAMESAKE}")]
        if ours.pipeline.delivers:
            other.append(("delivers", "aside"))
        takes_over = ours.pipeline.delivers and randoms["namesake"].random() < 0.7
        found["namesake"] = replace(ours, pipeline=pipeline_of((*keys, *other)), takes_over=takes_over)
    return found


def healed_deployment(stage: Stage, places: Places) -> Deployment:
    """The pipeline that goes on at the end: the one that claimed the sink, run by the owner that is to be.

    Raises:
        BrokenPromiseError: another pipeline has delivered to the same sink.
    """
    ours, namesake = replace(stage.deployment, takes_over=bool(stage.intruders)), stage.intruders.get("namesake")
    if namesake is None:
        return ours
    begun, claim = places.document(f"{NAMESAKE}/owners/0.json"), places.document("changes/_icefloe.json")
    owner = None if claim is None else claim["owner"]
    if ours.pipeline.delivers:
        owner = owner_of(stage.world.index)
    is_theirs = begun is not None and owner == begun["checkpoint_id"]
    winner, loser = (namesake, ours) if is_theirs else (ours, namesake)
    # An operator may move the cursor of a pipeline whose sink is another's: nothing is delivered by that.
    delivered = [each for each in checkpoint_of(loser, places).commits("") if each["route"] not in UNDELIVERED]
    # A rival runs the pipeline of ours: what it takes over is that pipeline's. No path of files is ever taken over.
    side = {"namesake"} if is_theirs else stage.intruders.keys() - {"namesake"}
    took_over = ours.pipeline.delivers and any(stage.intruders[each].takes_over for each in side)
    if delivered and not took_over:
        raise BrokenPromiseError("two pipelines have delivered to one sink")
    return winner


def checkpoint_of(deployment: Deployment, places: Places) -> Places:
    """The documents of the checkpoint of a pipeline, and its changes."""
    pipeline = deployment.pipeline
    return replace(
        places,
        checkpoint=f"{pipeline.checkpoint_url.removeprefix(f'{ROOT}/')}/",
        changes=f"{str(pipeline.changes_folder.path).removeprefix(f'{ROOT}/')}/",
        delivers=pipeline.delivers,
        keeps=pipeline.keep_staged is None or not pipeline.delivers,
    )
