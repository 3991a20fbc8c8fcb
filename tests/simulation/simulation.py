"""One schedule: a scenario, its actors at work, the faults healed, and what is left held to the promises."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from random import Random
from typing import Final

from icefloe.errors import TerminalError
from simulation.catalog import with_catalog, with_files_of
from simulation.delivered import (
    cursor_of,
    require_delivered,
    require_nothing_late,
    require_nothing_left,
    require_reports,
)
from simulation.held import IndexPromises, owner_of
from simulation.kept_work import with_kept_work
from simulation.promises import UNDELIVERED, BrokenPromiseError, Places, Promises
from simulation.protocol import ProtocolWatch
from simulation.runs import run, run_backfill
from simulation.scenario import NAMESAKE, Keys, Scenario, pipeline_of, with_clocks
from simulation.scheduler import Actor, Decision, Drawn, Place, Remembered, Scheduler
from simulation.stage import Deployment, Stage
from simulation.store import in_one_thread, with_index
from simulation.table import table_states
from simulation.upkeep import act_of, reset, sweep
from simulation.world import ROOT, Homes, World
from support.pipelines.divisions import with_divisions

__all__ = ["Trial", "checkpoint_of", "delivered_before", "deployment_of", "simulate"]


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
    """The pipeline that goes on at the end: the one that claimed the sink, run by the owner that is to be."""
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


_MOST_FAULTS: Final = 6
_MOST_BATCHES: Final = 20
_COORDINATED: Final = 20
"""Of so many seeds the last has a store that a table coordinates."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """The outcome of a schedule.

    Attributes:
        seed: gives the same schedule again.
        scenario: drawn from the seed.
        decisions: every switch and every fault.
        error: the promise that was broken, or another error that no schedule may end with; None: all is well.
        world: as the schedule left it.
    """

    seed: int
    scenario: Scenario
    decisions: Mapping[Place, Decision]
    error: Exception | None
    world: World

    @property
    def log(self) -> Sequence[str]:
        """One line per operation."""
        return self.world.log

    @property
    def digest(self) -> str:
        """Short name of the log: equal logs have equal ones."""
        return hashlib.sha256("\n".join(self.log).encode()).hexdigest()[:16]


def simulate(seed: int, decisions: Mapping[Place, Decision] | None = None) -> Trial:
    """Runs the schedule of a seed.

    Args:
        seed: decides everything.
        decisions: taken in place of those that the seed gives; the scenario stays.
    """
    random = Random(seed)
    # What a batch of a large table has is drawn aside, so that seeds from before keep their schedules.
    aside = Random(f"large {seed}")
    scenario = Scenario.drawn(random).enlarged(aside).narrowed(Random(f"narrow {seed}"))
    drawn = Drawn(
        random=Random(random.getrandbits(64)),
        switches=scenario.switches,
        faults=scenario.faults,
        most_faults=_MOST_FAULTS,
    )
    taken = drawn if decisions is None else Remembered(decisions)
    world = World(
        scheduler=Scheduler(taken),
        random=Random(random.getrandbits(64)),
        heads=list(table_states().main[: scenario.first_commits]),
    )
    if seed % _COORDINATED == _COORDINATED - 1:
        world.homes = Homes(world)
    error: Exception | None = None
    try:
        clocks = dict(zip(scenario.actors, scenario.clocks, strict=True))
        with (
            with_kept_work(), in_one_thread(), with_catalog(), with_index(), with_files_of(world),
            with_clocks(world.now, clocks), with_divisions(),
        ):  # fmt: skip
            _play(scenario, world, {name: Random(random.getrandbits(64)) for name in scenario.actors})
    except Exception as cause:  # noqa: BLE001 - whatever it is, it is a finding
        error = cause
    return Trial(
        seed=seed,
        scenario=scenario,
        decisions=drawn.taken if decisions is None else decisions,
        error=error,
        world=world,
    )


def _play(scenario: Scenario, world: World, randoms: Mapping[str, Random]) -> None:
    states = table_states()
    stage, promises, index = _staged(scenario, world, randoms)
    actors = [Actor(name=name, act=act_of(name, stage, randoms[name])) for name in scenario.actors]
    world.scheduler.run(actors)
    if not world.faults:
        require_nothing_late(promises.places)
    world.scheduler.stop_deciding()
    healed = healed_deployment(stage, promises.places)
    world.scheduler.run([Actor(name="last", act=partial(_heal, stage, healed))])
    places = checkpoint_of(healed, promises.places)
    if "columns" in dict(scenario.keys):
        states = states.without_key()
    if places.keeps:
        is_load = dict(scenario.keys)["initial_load"] != "from_now"
        cursor = require_delivered(places, states, "", is_load=is_load)
    else:
        cursor = cursor_of(places)
    if cursor != world.heads[-1]:
        raise BrokenPromiseError(f"the cursor is {cursor} at the end, the table is at {world.heads[-1]}")
    for backfill in stage.backfill_folders():
        require_delivered(promises.places, states, backfill, is_load=True)
    if index is not None:
        index.require_held(places, places.commits("")[-1], what="all runs have ended")
    require_nothing_left(places, unfinished=promises.open)


def _staged(
    scenario: Scenario, world: World, randoms: Mapping[str, Random]
) -> tuple[Stage, Promises, IndexPromises | None]:
    """The stage of the actors, with the batches that were delivered before, and the promises that hold there."""
    states = table_states()
    if scenario.delivered_commits:
        world.begin_with(delivered_before(scenario.keys, scenario.delivered_commits))
    intruders = intruders_among(scenario.keys, scenario.actors, randoms)
    deployment = deployment_of(scenario.keys, scenario.actors)
    places = checkpoint_of(deployment, Places(objects=world.objects))
    others = [checkpoint_of(each, places) for each in intruders.values()]
    promises = Promises(
        places=places,
        others=others,
        states=states,
        heads=world.heads,
        may_take_over=frozenset(["last", *(name for name, each in intruders.items() if each.takes_over)]),
    )
    world.watchers += [promises, ProtocolWatch(places=_unlike([places, *others]))]
    index = None
    if places.delivers:
        index = IndexPromises(index=world.index, pipelines=_unlike([places, *others]), states=states)
        world.watchers.append(index)
    stage = Stage(
        world=world,
        states=states,
        deployment=deployment,
        intruders=intruders,
        later_commits=scenario.later_commits,
    )
    return stage, promises, index


def _unlike(pipelines: Sequence[Places]) -> Sequence[Places]:
    """Each checkpoint once: a rival has that of the pipeline."""
    return list({places.checkpoint: places for places in pipelines}.values())


@lru_cache(maxsize=256)
def delivered_before(keys: Keys, commits: int) -> World:
    """The world after a run without faults has delivered the first commits of the table."""
    heads = list(table_states().main[:commits])
    world = World(scheduler=Scheduler(Remembered({})), random=Random(0), heads=heads)
    deployment = deployment_of(keys, ())
    stage = Stage(world=world, states=table_states(), deployment=deployment, later_commits=0)
    # The same for each schedule that begins with it.
    with with_index(), with_divisions():
        world.scheduler.run([Actor(name="before", act=partial(_heal, stage, deployment))])
    return world


def _heal(stage: Stage, deployment: Deployment, actor: Actor) -> None:
    """Runs without faults finish what the others left, and a sweep takes the rest."""
    stage.world.come_due(everything=True)
    had_intruders = bool(stage.intruders)
    own = replace(stage.deployment, takes_over=had_intruders)
    stage.intruders, stage.deployment = {}, deployment
    try:
        has_ended = run(stage, actor, batches=_MOST_BATCHES)
    except TerminalError:
        if not had_intruders:
            raise
        # As the sentence of a batch says whose sink was taken over and back. Nobody else takes it over now.
        stage.tried(actor, partial(reset, stage))
        has_ended = run(stage, actor, batches=_MOST_BATCHES)
    if not has_ended:
        # A part may have been lost so late that only its check found it: the sentence says to run again.
        has_ended = run(stage, actor, batches=_MOST_BATCHES)
    if not has_ended:
        raise BrokenPromiseError("a run without faults does not come to an end")
    if deployment.pipeline.delivers:  # only there a delivery may be given up late, and reading reports costs
        commits = checkpoint_of(deployment, stage.places).commits("")
        stage.tried(actor, lambda process: require_reports(stage.session(process).checkpoint, commits))
    stage.deployment = own
    for request in stage.backfills:
        if not run_backfill(stage, actor, request, batches=2):
            raise BrokenPromiseError("a backfill without faults does not come to an end")
    sweep(stage, actor, older_than_seconds=0)
