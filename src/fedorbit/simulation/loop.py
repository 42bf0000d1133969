"""The only round loop: train, evaluate, record, checkpoint; stop and continue at any moment."""

import time
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fedorbit.config.network import NetworkSection
from fedorbit.data.similarity import similarity_coefficient
from fedorbit.errors import RunError
from fedorbit.fleet import Fleet, Now
from fedorbit.fleet.ledger import SINCE_RECORD
from fedorbit.fleet.roster import Rosters
from fedorbit.learning.engine import Engine
from fedorbit.methods.base import Method
from fedorbit.orbits.rings import rings, unlinked_orbits
from fedorbit.simulation.checkpoint import Checkpoint, load_newest, save
from fedorbit.simulation.confusion import class_figures
from fedorbit.simulation.evaluation import Evaluator, clients, evaluator_of
from fedorbit.simulation.provenance import provenance
from fedorbit.simulation.records import (
    Record,
    RecordFile,
    headline,
    noted,
    read_records,
    write_summary,
)
from fedorbit.simulation.running_mean import RunningMean
from fedorbit.simulation.world import (
    World,
    warn_of_idle_satellites,
    warn_of_orbits_without_routes,
)
from fedorbit.stopping import StopRequested, deaf_to_signals, stopping_on_signals


class RunProgress(Protocol):
    """Observer of a run."""

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Report that a method starts or continues."""

    def round_done(self, t: int, record: Record | None) -> None:
        """A round is over; with its record if it was evaluated."""

    def finished(self, summary: dict[str, Any]) -> None:
        """Report that all rounds are done; again if the process dies before the summary."""

    def end(self) -> None:
        """The method is over or stopped."""


class SilentRunProgress:
    """Shows nothing."""

    def begin(self, method: str, rounds_done: int, rounds: int) -> None:
        """Report that a method starts or continues."""

    def round_done(self, t: int, record: Record | None) -> None:
        """A round is over."""

    def finished(self, summary: dict[str, Any]) -> None:
        """All rounds are done."""

    def end(self) -> None:
        """The method is over or stopped."""


def run_rounds(
    world: World,
    engine: Engine,
    name: str,
    method: Method,
    folder: Path,
    run_id: str,
    progress: RunProgress,
) -> dict[str, Any]:
    """Run a method to its end in a folder, from its newest checkpoint; return the summary.

    `run_id` is what all files that are written here carry, from the run's manifest.
    """
    config = world.config
    fleet = fleet_for(method, world, engine)
    if fleet.onboard is not None:
        warn_of_idle_satellites(fleet.onboard)
    if fleet.aggregations is not None:
        warn_of_orbits_without_routes(fleet)
    evaluator = evaluator_of(world, engine, method.serves)
    at = _Standing(_start_or_resume(method, fleet, folder, run_id))
    fleet.restore(at.done.spent, at.done.under_way)
    opened = RecordFile(folder, run_id, at.done.records_bytes, at.done.chain)
    try:
        with closing(opened) as records, stopping_on_signals():
            progress.begin(name, at.done.rounds_done, config.run.rounds)
            _rounds(world, method, folder, run_id, progress, fleet, evaluator, records, at)
        summary = _summary(world, name, method, fleet, folder, at.done, engine.backend)
        progress.finished(summary)
    finally:
        progress.end()
    write_summary(folder, summary, run_id, at.done.chain)
    return summary


def fleet_for(method: Method, world: World, engine: Engine) -> Fleet:
    """Return the fleet of a method; samples have moved if it moves some before the first round.

    What moves follows from method and world alone, so that a resumed run has the same.
    """
    fleet = world.fleet(engine, method.needs)
    moves = method.offloading(fleet)
    if not moves:
        return fleet
    world = world.with_moves(moves)
    return world.fleet(engine.with_parts(world.data), method.needs, moves)


@dataclass
class _Standing:
    """State of a run. In one place only, so that no older state stays in memory."""

    done: Checkpoint


def _start_or_resume(method: Method, fleet: Fleet, folder: Path, run_id: str) -> Checkpoint:
    """Return the newest checkpoint, or a run's beginning; refuse a state of another method."""
    state, (spent, under_way) = method.start(fleet), fleet.saved()
    start = Checkpoint(0, state, {**spent, "seconds": 0.0}, under_way, 0, chain=run_id)
    found = load_newest(folder, run_id)
    if found is None:
        return start
    expected, stored = (
        {name: (array.dtype, array.shape) for name, array in state.items()}
        for state in (start.state, found.state)
    )
    if expected != stored:
        raise RunError(
            f"{folder}: the checkpoint after round {found.rounds_done} does not hold the state of "
            "this method; start again in another folder"
        )
    return found


def _rounds(
    world: World,
    method: Method,
    folder: Path,
    run_id: str,
    progress: RunProgress,
    fleet: Fleet,
    evaluator: Evaluator,
    records: RecordFile,
    at: _Standing,
) -> None:
    run, every = world.config.run, world.config.engine.checkpoint_every
    saved = at.done.rounds_done
    clock = time.monotonic() - at.done.spent["seconds"]
    means = RunningMean(world.config.training.running_mean, at.done.under_way)
    try:
        for t in range(at.done.rounds_done, run.rounds):
            now = fleet.at(t)
            state = method.round(at.done.state, now)
            if fleet.onboard is not None:
                fleet.onboard.begin(t + 1)
            record, records_bytes = None, at.done.records_bytes
            is_last = t + 1 == run.rounds
            due = is_last or (t + 1) % run.evaluate_every == 0
            in_use = means.after(t, method.models(state)) if due or means.decay else None
            if due and in_use is not None:
                with_confusion = is_last or (t + 1) % (run.confusion_every or run.rounds) == 0
                evaluated = evaluator(in_use, clients(now, method.serves), with_confusion)
                record = _record(world, now, evaluated, clock)
                records_bytes = records.append(record)
                fleet.ledger.start_record()
                fleet.notes.start_record()
                if fleet.onboard is not None:
                    fleet.onboard.start_record()
            spent, under_way = fleet.saved()
            spent["seconds"] = time.monotonic() - clock
            under_way |= means.saved()
            # From here on the round counts: a stop before this line forgets it, after it keeps it.
            at.done = Checkpoint(t + 1, state, spent, under_way, records_bytes, records.chain)
            if is_last or (t + 1) % every == 0:
                save(folder, run_id, at.done)
                saved = t + 1
            progress.round_done(t, record)
    except BaseException as reason:
        if at.done.rounds_done > saved:
            # A full disk must not hide what went wrong; but a stop promises that nothing is lost.
            forgivable = () if isinstance(reason, StopRequested) else (OSError,)
            with deaf_to_signals(), suppress(*forgivable):
                save(folder, run_id, at.done)
        raise


def _record(world: World, now: Now, evaluated: Record, clock: float) -> Record:
    onboard = now.fleet.onboard
    return {
        "round": now.t,
        "hours": round((now.t + 1) * world.config.schedule.round_s / 3600.0, 6),
        "visible": np.flatnonzero(now.fleet.visible[now.t]).tolist(),
        "satellites_in_view": len(now.satellites_of()),
        **({"present": now.orbits.active} if world.config.events else {}),
        **evaluated,
        **now.fleet.ledger.totals(),
        **(onboard.record() if onboard is not None else {}),
        **now.fleet.notes.record(),
        **({"hops": hops} if (hops := now.fleet.ledger.hops.recorded()) else {}),
        "seconds": round(time.monotonic() - clock, 3),
    }


def _isl_summary(world: World) -> dict[str, Any]:
    """Describe the links within orbits, and name the orbits whose assumed links do not exist."""
    network = world.config.network or NetworkSection()
    if world.config.is_routed or world.config.run.links == "physical":
        return {"isl": network.isl, "unlinked_orbits": list(world.unlinked_orbits)}
    found = rings(world.constellation, network.grazing_km)
    unlinked = unlinked_orbits(found, network.max_range_km or None)
    return {"isl": "assumed", "unlinked_orbits": unlinked}


def _summary(
    world: World,
    name: str,
    method: Method,
    fleet: Fleet,
    folder: Path,
    done: Checkpoint,
    backend: str,
) -> dict[str, Any]:
    spent = {k: v for k, v in done.spent["ledger"].items() if k not in SINCE_RECORD}
    # Over routes FedAvg does not send a model in every round of contact.
    routed = world.config.is_routed
    fedavg_bytes = 0 if routed else fleet.fedavg_to_ground_bytes(done.rounds_done)
    last = fleet.at(done.rounds_done - 1)
    # As the samples were dealt, also where a method has moved some.
    counts = world.partition.train_counts(world.data.labels, world.spec.classes)
    dealt = Rosters(world.activity, counts, world.partition.orbit_of_satellite).at(last.t)
    similarity = similarity_coefficient(dealt.orbit_class_counts[dealt.orbits])
    moves = [{"from": m.source, "to": m.target, "samples": m.total} for m in fleet.moves]
    events = [event.model_dump(exclude_none=True) for event in world.config.events]
    records = read_records(folder)
    return {
        "method": name,
        **headline(records),
        **class_figures(records[-1].get("confusion", [])),
        "similarity": similarity,
        **method.facts(done.state, last),
        "rounds": done.rounds_done,
        "links": fleet.links,
        **_isl_summary(world),
        **({"events": events} if events else {}),
        **({"offloaded": moves} if moves else {}),
        **noted(records),
        **spent,
        "seconds": done.spent["seconds"],
        "to_ground_vs_fedavg": spent["to_ground_bytes"] / fedavg_bytes if fedavg_bytes else None,
        "parameters": fleet.layout.size,
        "tau_max": fleet.tau_max,
        **({"onboard": fleet.onboard.summary()} if fleet.onboard is not None else {}),
        **({"service": world.service.summary()} if world.service is not None else {}),
        "provenance": provenance(world.config, backend),
    }
