"""From a configuration to the things it describes: constellation, schedule, data, partition."""

import warnings
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.config import Config
from fedorbit.config.images import DirichletSection, GroundTrackSection, PathologicalSection
from fedorbit.config.network import NetworkSection
from fedorbit.config.schema import (
    EventSection,
    WalkerSection,
)
from fedorbit.data.cache import Dataset
from fedorbit.data.catalog import SYNTHETIC, open_dataset, synthetic_dataset, takes_coordinates
from fedorbit.data.partition import (
    Dirichlet,
    GroundTrack,
    Partition,
    PartitionScheme,
    Pathological,
    Split,
    official_split,
    stratified_split,
    thinned_split,
)
from fedorbit.data.synthetic import SyntheticSpec
from fedorbit.errors import ConfigError, PartitionError
from fedorbit.hardware import JOULES_PER_WH, Hardware, Power
from fedorbit.orbits.constellation import (
    Constellation,
    from_element_sets,
    listed_names,
    walker,
)
from fedorbit.orbits.contacts import Contacts, find_contacts
from fedorbit.orbits.crosslinks import Links, find_links
from fedorbit.orbits.elements import read_element_sets
from fedorbit.orbits.places import Place, groups_in_sight
from fedorbit.orbits.plan import ContactPlan, plan_of, with_links
from fedorbit.orbits.plan_files import Nodes, read_plan
from fedorbit.orbits.routing import HopTimes, round_trips
from fedorbit.orbits.service import LinkRates, Service, contact_seconds
from fedorbit.orbits.sight import LinkSettings
from fedorbit.orbits.sunlight import sunlit_seconds
from fedorbit.orbits.swath import count_passes
from fedorbit.orbits.visibility import Schedule, round_times_s
from fedorbit.progress import Progress, SilentProgress
from fedorbit.randomness import generator

SENTINEL_2_HALF_WIDTH_KM = 145.0


def build_constellation(config: Config) -> Constellation:
    """Lay out the satellites."""
    section = config.constellation
    if isinstance(section, WalkerSection):
        settings = section.model_dump(exclude={"kind"})
        return walker(**settings, start=config.schedule.start)
    constellation = from_element_sets(
        read_element_sets(section.path),
        start=config.schedule.start,
        horizon_s=horizon_s(config),
        **section.model_dump(exclude={"kind", "file"}),
    )
    if constellation.left_out:
        _warn_of_drifting(constellation)
    return constellation


def _warn_of_drifting(constellation: Constellation) -> None:
    left_out = constellation.left_out
    warnings.warn(
        f"{len(left_out)} of {constellation.satellites + len(left_out)} satellites drift between "
        f"planes or shells and are left out ({listed_names(left_out)}); "
        'constellation.drifting = "keep" gives them orbits of their own',
        stacklevel=3,
    )


def build_places(config: Config) -> tuple[Place, ...]:
    """Return the stations and platforms, the servers of the contact plan."""
    return tuple(Place(**station.model_dump()) for station in config.stations)


def build_activity(config: Config, constellation: Constellation) -> Activity:
    """Work out from the events which satellites are active in which round.

    A satellite is active while neither itself nor its orbit is away.
    """
    there = {
        "orbit": np.ones(constellation.orbits, dtype=np.bool_),
        "satellite": np.ones(constellation.satellites, dtype=np.bool_),
    }
    for place, event in enumerate(config.events):
        what, index = event.subject
        if index >= len(there[what]):
            raise ConfigError(
                f"events.{place}.{what} must be below {len(there[what])}, the number of {what}s, "
                f"got {index}; they count from 0"
            )
        if event.round >= config.schedule.rounds:
            raise ConfigError(
                f"events.{place}.round must be below schedule.rounds ({config.schedule.rounds}), "
                f"got {event.round}; raise schedule.rounds, or remove the event"
            )
    events = sorted(config.events, key=lambda event: event.round)
    for event in reversed(events):  # so that the first event of each has the last word
        what, index = event.subject
        there[what][index] = event.kind == "leave"
    segments: dict[int, list[EventSection]] = {0: []}
    for event in events:
        segments.setdefault(event.round, []).append(event)
    satellites = np.empty((len(segments), constellation.satellites), dtype=np.bool_)
    for row, changes in zip(satellites, segments.values(), strict=True):
        for event in changes:
            what, index = event.subject
            there[what][index] = event.kind == "join"
        row[:] = there["satellite"] & there["orbit"][constellation.orbit_of_satellite]
    return Activity(np.array(list(segments), dtype=np.int64), satellites)


def search_contacts(
    config: Config, constellation: Constellation, progress: Progress | None = None
) -> Contacts:
    """Find the contacts that geometry gives, over the whole horizon."""
    rounds, round_s = config.schedule.rounds, config.schedule.round_s
    places = build_places(config)
    return find_contacts(constellation, places, rounds, round_s, progress=progress)


def build_plan(
    config: Config,
    constellation: Constellation,
    progress: Progress | None = None,
    contacts: Contacts | None = None,
) -> ContactPlan:
    """Return the contact plan: from the file that the configuration names, or from geometry."""
    if config.schedule.plan is not None:
        return read_plan(config.schedule.plan, plan_nodes(config, constellation))
    if contacts is None:
        contacts = search_contacts(config, constellation, progress)
    places = build_places(config)
    plan = plan_of(contacts, constellation.satellites, places, horizon_s(config))
    links = search_links(config, constellation, progress)
    return plan if links is None else with_links(plan, links)


def search_links(
    config: Config, constellation: Constellation, progress: Progress | None = None
) -> Links | None:
    """Find the links between satellites; None where the configuration asks for none."""
    section, schedule = config.network, config.schedule
    if section is None or section.isl != "line-of-sight":
        return None
    settings = _link_settings(section)
    return find_links(constellation, settings, schedule.rounds, schedule.round_s, progress=progress)


def orbits_without_ring(
    config: Config, constellation: Constellation, progress: Progress | None = None
) -> tuple[int, ...]:
    """Return the orbits whose satellites do not always reach each other by line of sight.

    Over links within the plane that last for the whole horizon, as an assumed link does.
    """
    settings = replace(_link_settings(config.network or NetworkSection()), cross_plane=False)
    settings, schedule = replace(settings, in_plane=True, terminals=None), config.schedule
    links = find_links(
        constellation, settings, schedule.rounds, schedule.round_s, progress=progress
    )
    lasting = links.cut_at_start & links.cut_at_end
    group = np.arange(constellation.satellites)
    for a, b in zip(links.first[lasting].tolist(), links.second[lasting].tolist(), strict=True):
        group[group == group[b]] = group[a]
    orbit_of_satellite = constellation.orbit_of_satellite
    groups = [len(set(group[orbit_of_satellite == o])) for o in range(constellation.orbits)]
    return tuple(orbit for orbit, count in enumerate(groups) if count > 1)


def _link_settings(section: NetworkSection) -> LinkSettings:
    return LinkSettings(
        grazing_km=section.grazing_km,
        max_range_km=section.max_range_km or None,
        in_plane=section.in_plane,
        cross_plane=section.cross_plane,
        terminals=section.terminals or None,
        acquisition_s=section.acquisition_s,
        max_rate_deg_s=section.max_rate_deg_s or None,
    )


def plan_nodes(config: Config, constellation: Constellation) -> Nodes:
    """Return what a file of contacts may name: satellites, servers, and times."""
    return Nodes(
        constellation.satellite_names, build_places(config), horizon_s(config), constellation.start
    )


def build_schedule(config: Config, constellation: Constellation, plan: ContactPlan) -> Schedule:
    """Take from a plan which orbits are in view in which round, over the whole horizon."""
    times_s = round_times_s(config.schedule.rounds, config.schedule.round_s)
    return Schedule(times_s, plan.orbits_in_view(times_s, constellation.orbit_of_satellite))


def usable_plan(config: Config, plan: ContactPlan, activity: Activity) -> ContactPlan:
    """Return the contacts of active satellites that the configuration allows."""
    if config.is_routed and config.network is not None and config.network.isl == "none":
        plan = plan.with_servers
    return plan.restricted(activity, config.schedule.round_s)


def routed_schedule(
    config: Config, orbit_of_satellite: NDArray[np.int64], plan: ContactPlan, model_bytes: int
) -> Schedule:
    """Take from a plan in which rounds a model gets from the ground to an orbit and back.

    Over routes, which may lead through other orbits.
    """
    rounds, round_s, rates = config.schedule.rounds, config.schedule.round_s, build_rates(config)
    hop_times = HopTimes.of(
        model_bytes, rates.to_ground_mbps, rates.from_ground_mbps, isl_mbps(config)
    )
    groups = build_server_groups(config)
    visible = round_trips(plan, hop_times, orbit_of_satellite, rounds, round_s, groups)
    return Schedule(round_times_s(rounds, round_s), visible)


def build_server_groups(config: Config) -> list[int] | None:
    """Number the servers by which of them are linked; None if all are, by a backhaul."""
    if config.network is None or config.network.servers == "backhaul":
        return None
    return groups_in_sight(build_places(config))


def isl_mbps(config: Config) -> float | None:
    """Return the rate of links between satellites; None takes no time."""
    return config.link_rates.isl_mbps if config.link_rates else None


def has_rates(config: Config) -> bool:
    """Return whether a contact with the ground can be too short for a model."""
    return build_rates(config) != LinkRates()


def build_rates(config: Config) -> LinkRates:
    """Return the rates of links with the ground; none where the configuration has none."""
    rates = config.link_rates
    if rates is None:
        return LinkRates()
    return LinkRates(rates.to_ground_mbps, rates.from_ground_mbps)


def build_service(
    config: Config,
    constellation: Constellation,
    plan: ContactPlan,
    in_view: Schedule,
    model_bytes: int,
) -> Service:
    """Work out which rounds serve an orbit, given the rates of links and the size of a model."""
    seconds = contact_seconds(
        plan, constellation.orbit_of_satellite, in_view.rounds, config.schedule.round_s
    )
    return Service(in_view, seconds, build_rates(config).exchange_s(model_bytes))


def build_hardware(
    config: Config, constellation: Constellation, progress: Progress | None = None
) -> Hardware | None:
    """Draw the speeds of satellites, and follow them through light and shadow."""
    section, satellites = config.onboard, constellation.satellites
    if section is None:
        return None
    given = len(section.samples_per_s)
    if given not in (1, satellites):
        raise ConfigError(
            f"onboard.samples_per_s must be one number or a list of {satellites}, one per "
            f"satellite, got a list of {given}"
        )
    factors = [
        np.exp(section.speed_spread * generator(config.seed, "speed", k).standard_normal())
        for k in range(satellites if section.speed_spread else 0)
    ]
    power = None
    if section.energy is not None:
        energy = section.energy
        power = Power(
            battery_j=JOULES_PER_WH * energy.battery_wh,
            initial_j=JOULES_PER_WH * energy.battery_wh * energy.initial_charge,
            solar_w=energy.solar_w,
            training_w=energy.training_w,
            sunlit_s=sunlit_seconds(
                constellation, config.run.rounds, config.schedule.round_s, progress
            ),
        )
    return Hardware(
        samples_per_s=np.full(satellites, section.samples_per_s) * (factors or 1.0),
        round_s=config.schedule.round_s,
        deadline=section.deadline,
        # Over routes, what links take is part of the route and not of the time on board.
        isl_mbps=None if config.is_routed else isl_mbps(config),
        power=power,
    )


def horizon_s(config: Config) -> float:
    """Length of the scheduled period."""
    return config.schedule.rounds * config.schedule.round_s


def load_dataset(config: Config, progress: Progress | None = None) -> Dataset:
    """Open the prepared dataset; synthetic images are generated where they are missing."""
    if config.data.name == SYNTHETIC:
        spec = SyntheticSpec(**config.data.synthetic.model_dump())
        return synthetic_dataset(spec, progress or SilentProgress())
    return open_dataset(config.data.name)


def image_shape(config: Config) -> tuple[tuple[int, int, int], int]:
    """Height, width and channels of the images, and the number of classes; reads no image."""
    if config.data.name == SYNTHETIC:
        made = config.data.synthetic
        return (made.size, made.size, made.channels), made.classes
    dataset = open_dataset(config.data.name)
    height, width, channels = dataset.images.shape[1:]
    return (height, width, channels), len(dataset.class_names)


def build_split(config: Config, dataset: Dataset) -> Split:
    """Divide into training and test: the dataset's own split where it has one."""
    section = config.data
    if dataset.split is not None:
        split = official_split(dataset.split)
    else:
        split = stratified_split(dataset.labels, section.test_share, config.seed)
    if section.share is None:
        return split
    return thinned_split(split, dataset.labels, section.share, config.seed)


def build_partition(
    config: Config,
    dataset: Dataset,
    constellation: Constellation,
    progress: Progress | None = None,
) -> Partition:
    """Deal the samples to satellites and orbits."""
    return partition_scheme(config, dataset, constellation, progress).deal(
        dataset.labels,
        len(dataset.class_names),
        build_split(config, dataset),
        constellation.orbit_of_satellite,
        config.seed,
    )


def partition_scheme(
    config: Config,
    dataset: Dataset,
    constellation: Constellation,
    progress: Progress | None = None,
) -> PartitionScheme:
    """Choose the scheme; a ground-track partition needs places and geometry."""
    section = config.partition
    if isinstance(section, PathologicalSection):
        return Pathological(section.satellite_alpha)
    if isinstance(section, DirichletSection):
        return Dirichlet(section.alpha, section.satellite_alpha)
    return _ground_track(config, section, dataset, constellation, progress)


def _ground_track(
    config: Config,
    section: GroundTrackSection,
    dataset: Dataset,
    constellation: Constellation,
    progress: Progress | None,
) -> GroundTrack:
    if dataset.latitude_deg is None or dataset.longitude_deg is None:
        prepare = "prepare it again with --geo FILE and --force, or "
        raise PartitionError(
            f"the ground-track partition needs coordinates, and dataset {dataset.name} has none; "
            f"{prepare if takes_coordinates(dataset) else ''}choose another partition.scheme"
        )
    half_width_km = section.swath_half_width_km
    if half_width_km is None and section.min_elevation_deg is None:
        half_width_km = SENTINEL_2_HALF_WIDTH_KM
    known = np.isfinite(dataset.latitude_deg) & np.isfinite(dataset.longitude_deg)
    passes = np.zeros((len(dataset.labels), constellation.satellites), dtype=np.int32)
    passes[known] = count_passes(
        constellation,
        dataset.latitude_deg[known],
        dataset.longitude_deg[known],
        horizon_s(config),
        swath_half_width_km=half_width_km,
        min_elevation_deg=section.min_elevation_deg,
        progress=progress,
    )
    return GroundTrack(passes)
