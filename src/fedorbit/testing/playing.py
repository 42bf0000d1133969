"""Play methods round by round, with all that a checkpoint keeps, and follow what moves."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import safetensors.numpy
from numpy.typing import NDArray

from fedorbit.fleet import BYTES_PER_PARAMETER, Channel, Fleet, Signal, Superposed
from fedorbit.fleet.aggregation import Aggregations, Cycle
from fedorbit.fleet.facts import plain
from fedorbit.fleet.network import Hop, Network
from fedorbit.fleet.orbits import OrbitTier
from fedorbit.fleet.routes import Routes, Starts
from fedorbit.hardware import Floats
from fedorbit.learning.parameters import Vector
from fedorbit.learning.parts import Part
from fedorbit.methods.base import Method, State
from fedorbit.orbits.routing import ContactGraph
from fedorbit.simulation.world import World
from fedorbit.testing.worlds import fleet_of


@dataclass(frozen=True, eq=False)
class Snapshot:
    """All that a run continues from: a method's state, and the world's part of a checkpoint."""

    round: int
    """The next round."""
    state: State
    world: dict[str, Any]
    """The ledger, what is under way, clocks and batteries."""
    arrays: State
    """Arrays of messages, jobs and results under way."""


def snapshots(
    method: Method,
    world: World,
    workers: int = 1,
    resume: Snapshot | None = None,
    until: int | None = None,
) -> list[Snapshot]:
    """Play until a round, or to the end; return snapshots before and after every round."""
    with fleet_of(world, workers, method.needs) as fleet:
        taken = [resume or Snapshot(0, method.start(fleet), *fleet.saved())]
        fleet.restore(taken[0].world, taken[0].arrays)
        for t in range(taken[0].round, world.schedule.rounds if until is None else until):
            state = method.round(taken[-1].state, fleet.at(t))
            if fleet.onboard is not None:
                fleet.onboard.begin(t + 1)
            taken.append(Snapshot(t + 1, state, *fleet.saved()))
    return taken


def play(method: Method, world: World, workers: int = 1, until: int | None = None) -> list[State]:
    """Return the states before the first and after every round."""
    return [snapshot.state for snapshot in snapshots(method, world, workers, until=until)]


def reloaded(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it comes back from files."""
    state, arrays = (
        safetensors.numpy.load(safetensors.numpy.save(part))
        for part in (snapshot.state, snapshot.arrays)
    )
    return Snapshot(snapshot.round, state, json.loads(json.dumps(snapshot.world)), arrays)


def linked_nodes(fleet: Fleet) -> NDArray[np.bool_]:
    """Return which nodes have a link in which round, `[round, node, node]`."""
    nodes, slots = range(fleet.satellites + len(fleet.servers)), np.arange(fleet.topology.slots)
    linked = [[fleet.topology.linked(slots, a, b) for b in nodes] for a in nodes]
    return np.array(linked).transpose(2, 0, 1)


def reached(
    fleet: Fleet, source: int, begin: int, linked: NDArray[np.bool_] | None = None
) -> list[set[int]]:
    """Return nodes that what a satellite learns from a round on can have reached, per round.

    Within a round it passes over any number of links. `linked` are those of `linked_nodes`.
    """
    if linked is None:
        linked = linked_nodes(fleet)
    reached_by_round, known = [], {source}
    for links in linked[begin:]:
        news = set(known)
        while news:
            heard = set(np.flatnonzero(links[sorted(news)].any(axis=0)).tolist())
            known, news = known | heard, heard - known
        reached_by_round.append(set(known))
    return reached_by_round


@contextmanager
def counted_messages() -> Iterator[dict[str, int]]:
    """Count the bytes of all messages by kind, apart from the ledger, while this lasts."""
    counts = dict.fromkeys(("to_ground", "from_ground", "isl", "unlinked"), 0)
    send, upload, download = Network.send, OrbitTier.upload, OrbitTier.download
    superpose = Network.superpose
    exchange, carry, find_hops = OrbitTier.exchange, Routes.carry, Network._hops
    way: list[Hop] = []
    """Links of the last message, and whether each exists and has the time."""

    def noted_hops(network: Network, *message: Any) -> tuple[Hop, ...] | None:
        hops = find_hops(network, *message)
        way[:] = hops or ()
        return hops

    def count(kind: str, size_bytes: int, linked: bool = True) -> None:
        counts[kind if linked else "unlinked"] += size_bytes

    def counted_send(
        network: Network, t: int, source: int, target: int, vector: Vector, **how: Any
    ) -> int | None:
        arrival = send(network, t, source, target, vector, **how)
        if arrival is not None:
            size_bytes = _message_bytes(vector, **how)
            for hop in way:
                if (kind := _kind_of(network, hop)) is not None:
                    count(kind, size_bytes, hop.linked)
        return arrival

    def counted_superpose(
        network: Network, t: int, server: int, signals: Mapping[int, Signal], **how: Any
    ) -> Superposed:
        moment = how["at_s"], how["at_s"] + how["seconds"]
        linked = all(network.topology.in_contact(t, k, server, *moment) for k in signals)
        received = superpose(network, t, server, signals, **how)
        count("to_ground", BYTES_PER_PARAMETER * received.mean.size, linked)
        return received

    def counted_upload(orbits: OrbitTier, orbit: int, model: Vector) -> Vector:
        if orbits.fleet.aggregations is None:
            count("to_ground", BYTES_PER_PARAMETER * model.size, orbit in orbits.visible)
        return upload(orbits, orbit, model)

    def counted_download(orbits: OrbitTier, orbit: int, model: Vector) -> Vector:
        if orbits.fleet.aggregations is None:
            count("from_ground", BYTES_PER_PARAMETER * model.size, orbit in orbits.visible)
        return download(orbits, orbit, model)

    def counted_exchange(orbits: OrbitTier, orbit: int, values: int | None = None) -> None:
        if orbits.fleet.aggregations is None:
            others = len(orbits.satellites(orbit)) - 1
            values_each = orbits.fleet.layout.size if values is None else values
            count("isl", BYTES_PER_PARAMETER * 2 * others * values_each)
        exchange(orbits, orbit, values)

    def counted_carry(
        routes: Routes,
        sources: Sequence[int],
        start_s: Starts,
        targets: Sequence[int],
        size_bytes: int,
    ) -> Floats:
        for kind in _kinds_of_hops(routes, sources, start_s, targets):
            count(kind, size_bytes)
        return carry(routes, sources, start_s, targets, size_bytes)

    with (
        mock.patch.object(Network, "send", counted_send),
        mock.patch.object(Network, "superpose", counted_superpose),
        mock.patch.object(Network, "_hops", noted_hops),
        mock.patch.object(OrbitTier, "upload", counted_upload),
        mock.patch.object(OrbitTier, "download", counted_download),
        mock.patch.object(OrbitTier, "exchange", counted_exchange),
        mock.patch.object(Routes, "carry", counted_carry),
    ):
        yield counts


@contextmanager
def blanked_messages(orbit: int, model: Vector) -> Iterator[list[int]]:
    """Replace what an orbit and its satellites send by values of a model, while this lasts.

    What still learns of a change in the orbit has not learned it from a message. The list that is
    yielded grows by one with every exchange among the orbit's satellites, which then have learned.
    """
    exchanges: list[int] = []
    send, upload, exchange = Network.send, OrbitTier.upload, OrbitTier.exchange
    superpose = Network.superpose
    cycle_of = Aggregations.cycle

    def blanked_send(
        network: Network, t: int, source: int, target: int, vector: Vector, **how: Any
    ) -> int | None:
        if network.topology.orbit_of(source) == orbit:
            vector = np.resize(model, vector.size)
            facts = plain(how["about"]).items()
            how["about"] = {k: 1.0 if isinstance(v, float) else v for k, v in facts}
            if how["announce"] and isinstance(how["part"], np.ndarray):  # it travels too
                how["part"] = np.arange(vector.size) < np.count_nonzero(how["part"])
        return send(network, t, source, target, vector, **how)

    def blanked_superpose(
        network: Network, t: int, server: int, signals: Mapping[int, Signal], **how: Any
    ) -> Superposed:
        sent = {
            k: signal._replace(vector=np.resize(model, signal.vector.size), weight=1.0)
            if network.topology.orbit_of(k) == orbit
            else signal
            for k, signal in signals.items()
        }
        return superpose(network, t, server, sent, **how)

    def blanked_upload(orbits: OrbitTier, source: int, sent: Vector) -> Vector:
        return upload(orbits, source, np.resize(model, sent.size) if source == orbit else sent)

    def noted_exchange(orbits: OrbitTier, among: int, values: int | None = None) -> None:
        if among == orbit:
            exchanges.append(orbits.t)
        exchange(orbits, among, values)

    def noted_cycle(cycles: Aggregations, t: int, among: int) -> Cycle:
        if among == orbit:
            exchanges.append(t)
        return cycle_of(cycles, t, among)

    with (
        mock.patch.object(Aggregations, "cycle", noted_cycle),
        mock.patch.object(Network, "send", blanked_send),
        mock.patch.object(Network, "superpose", blanked_superpose),
        mock.patch.object(OrbitTier, "upload", blanked_upload),
        mock.patch.object(OrbitTier, "exchange", noted_exchange),
    ):
        yield exchanges


def _kinds_of_hops(
    routes: Routes, sources: Sequence[int], start_s: Starts, targets: Sequence[int]
) -> Iterator[str]:
    """Kinds of the hops over which a message spreads, each of which a contact must cover.

    A node gets a message once, so what the hops need is counted by the nodes that they lead to.
    """
    plan = routes.contacts
    if not np.isfinite(start_s).any():
        return
    graph = ContactGraph(plan, routes.hop_times, routes.server_groups)
    found = graph.earliest_arrival(list(sources), start_s)
    reached = {}
    for target in targets:
        for hop in found.route(target):
            window = plan.window(hop.first, hop.second, hop.depart_s)
            assert window is not None
            assert window.begin_s <= hop.depart_s < window.end_s
            reached[hop.second] = hop
    for hop in reached.values():
        to_server, from_server = hop.second >= plan.satellites, hop.first >= plan.satellites
        yield "to_ground" if to_server else "from_ground" if from_server else "isl"


def _message_bytes(
    vector: Vector, part: Part | None, announce: bool, channel: Channel, **_: Any
) -> int:
    """Bytes of a message: of the values that travel, and of a mask that is announced."""
    values = vector.size if part is None else vector[part].size
    is_announced = announce and not isinstance(part, slice | None)
    return channel.bytes(values) + (math.ceil(vector.size / 8) if is_announced else 0)


def _kind_of(network: Network, hop: Hop) -> str | None:
    """Kind of a link; None between servers, where it costs nothing."""
    names = {(False, True): "to_ground", (True, False): "from_ground", (False, False): "isl"}
    is_server = network.topology.is_server
    return names.get((is_server(hop.source), is_server(hop.target)))
