"""Everything that a configuration fixes before the first round; shared by its methods."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

import numpy as np
from numpy.typing import NDArray

from fedorbit.activity import Activity
from fedorbit.build import (
    build_activity,
    build_constellation,
    build_hardware,
    build_partition,
    build_places,
    build_plan,
    build_rates,
    build_schedule,
    build_server_groups,
    build_service,
    has_rates,
    image_shape,
    isl_mbps,
    load_dataset,
    orbits_without_ring,
    routed_schedule,
    usable_plan,
)
from fedorbit.cluster import ray_cluster
from fedorbit.config import Config
from fedorbit.data.cache import Dataset
from fedorbit.data.memory import in_memory
from fedorbit.data.partition import Partition
from fedorbit.data.rehearsal import deal_like
from fedorbit.data.stream import Images
from fedorbit.errors import ConfigError, RunError
from fedorbit.fleet import (
    BYTES_PER_PARAMETER,
    ONE_MODEL,
    Fleet,
    Move,
    Needs,
    Onboard,
    Rehearsal,
    TrainingPlan,
)
from fedorbit.fleet.moves import moved_parts
from fedorbit.hardware import Hardware
from fedorbit.learning.augmentation import Augmentation
from fedorbit.learning.backends import Backend, make_trainer, resolve_backend
from fedorbit.learning.calibration import log_priors
from fedorbit.learning.engine import Engine, LocalEngine
from fedorbit.learning.jobs import SgdSettings, TrainingData, standardisation
from fedorbit.orbits.constellation import Constellation
from fedorbit.orbits.places import Place
from fedorbit.orbits.plan import ContactPlan
from fedorbit.orbits.service import Service
from fedorbit.orbits.visibility import Schedule
from fedorbit.progress import Progress
from fedorbit.user_code import allowed_code

if TYPE_CHECKING:  # PyTorch takes a second to import
    from fedorbit.learning.models import ModelSpec
    from fedorbit.learning.ray.node import TrainingSetup
    from fedorbit.learning.torch_trainer import Trainer

NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class World:
    """Constellation, data and model of a run."""

    config: Config
    constellation: Constellation
    places: tuple[Place, ...]
    plan: ContactPlan
    """All contacts over the horizon."""
    active_plan: ContactPlan
    """The contacts of active satellites: launched and not lost."""
    schedule: Schedule
    """Orbits that can exchange models, by round: in view, and for long enough with link rates.

    Where satellites use routes: a message gets from the ground to the orbit and back in the round.
    """
    dataset: Dataset
    partition: Partition
    spec: ModelSpec
    data: TrainingData
    initial_model: NDArray[np.float32]
    activity: Activity
    hardware: Hardware | None = None
    """Speed and power on board, where the configuration has them."""
    service: Service | None = None
    """Rounds in view that link rates leave, where the configuration has rates."""
    unlinked_orbits: tuple[int, ...] = ()
    """Orbits whose links are assumed and do not always exist, with `links = "physical"`."""

    @property
    def orbits_present(self) -> NDArray[np.bool_]:
        """Active orbits, `[round, orbit]`."""
        rounds = np.arange(self.schedule.rounds)
        return self.activity.orbits_during(rounds, self.partition.orbit_of_satellite)

    @property
    def tau_max(self) -> int:
        """The longest gap of an active orbit; rounds away are no gap in its contacts."""
        covered = self.schedule.visible | ~self.orbits_present
        return replace(self.schedule, visible=covered).tau_max

    @property
    def sgd(self) -> SgdSettings:
        """Settings that all local training shares."""
        training = self.config.training
        return SgdSettings(
            training.batch,
            training.momentum,
            training.weight_decay,
            training.clip_norm,
            training.optimiser,
            training.beta2,
            training.epsilon,
        )

    @property
    def backend(self) -> Backend:
        """Training backend, by the configuration and as this machine can."""
        engine = self.config.engine
        return resolve_backend(
            engine.backend,
            self.spec.name,
            engine.device,
            self.spec.image_shape,
            self.data.images.dtype,
            self.config.torch_only,
        )

    def trainer(self) -> Trainer:
        """Return the trainer of the backend."""
        device = self.config.engine.device
        return make_trainer(self.backend, self.spec, self.data, self.sgd, device)

    @contextmanager
    def engine(self) -> Iterator[Engine]:
        """Yield the engine that the configuration names, and stop it afterwards."""
        section, trainer = self.config.engine, self.trainer()
        if section.kind == "local":
            local = LocalEngine(trainer, self.data, self.config.seed, section.workers)
            try:
                yield local
            finally:
                local.close(cancel=True)
            return
        from fedorbit.learning.ray.engine import RayEngine

        with ray_cluster(section.ray_address) as ray:
            remote = RayEngine(ray, self.setup(trainer), section.workers)
            try:
                yield remote
            finally:
                remote.close(cancel=True)

    @contextmanager
    def rehearsal(self) -> Iterator[Rehearsal]:
        """Yield synthetic images dealt like the run's, on threads of this process."""
        counts = self.partition.train_counts(self.data.labels, self.spec.classes)
        images, labels, train, held_out = deal_like(counts, self.spec.image_shape, self.config.seed)
        everything = np.sort(np.concatenate(train))
        scale, shift = standardisation(images, everything)
        data = TrainingData(images, labels, scale, shift, train, everything)
        data = _as_trained(data, self.config, self.spec.classes)
        section = self.config.engine
        trainer = make_trainer(self.backend, self.spec, data, self.sgd, section.device)
        workers = section.workers if section.kind == "local" else 0
        engine = LocalEngine(trainer, data, self.config.seed, workers)
        try:
            yield Rehearsal(engine, everything, held_out)
        finally:
            engine.close(cancel=True)

    def setup(self, trainer: Trainer) -> TrainingSetup:
        """Describe to a cluster what it needs to do this machine's jobs."""
        from fedorbit.learning.ray.node import ImagesOnNodes, TrainingSetup, probe

        data, images_on_nodes = self.data, None
        if self.config.engine.ray_data == "path":
            images_on_nodes = ImagesOnNodes.of(self.dataset)
            data = replace(data, images=data.images[:0])
        return TrainingSetup(
            data=data,
            images_on_nodes=images_on_nodes,
            seed=self.config.seed,
            model=self.config.model.model_dump(exclude={"weights", "weights_skip"}),
            constants=self.spec.constants,
            image_shape=self.spec.image_shape,
            classes=self.spec.classes,
            backend=self.backend,
            settings=self.sgd,
            probe=probe(trainer, self.data, self.spec.layout.size),
            allowed_code=allowed_code(),
        )

    def with_moves(self, moves: Sequence[Move]) -> World:
        """Return the world after training samples have changed satellites; all else stays."""
        train = moved_parts(self.partition.train, self.data.labels, moves, self.config.seed)
        pools = self.data.parts[len(train) :]
        return replace(
            self,
            partition=replace(self.partition, train=train),
            data=_as_trained(
                replace(self.data, parts=(*train, *pools)), self.config, self.spec.classes
            ),
        )

    def fleet(self, engine: Engine, needs: Needs = ONE_MODEL, moves: Sequence[Move] = ()) -> Fleet:
        """Return the world as a method may see it, with nothing spent yet but on `moves`.

        Time and power on board must suffice for `needs`, those of the method. `moves` are those
        that have made this world.
        """
        training = self.config.training
        return Fleet(
            engine=engine,
            layout=self.spec.layout,
            initial_model=self.initial_model,
            orbit_of_satellite=self.partition.orbit_of_satellite,
            class_counts=self.partition.train_counts(self.data.labels, self.spec.classes),
            visible=self.schedule.visible,
            contacts=self.active_plan,
            activity=self.activity,
            tau_max=self.tau_max,
            plan=TrainingPlan(
                training.epochs,
                training.intra_rounds,
                training.rate,
                training.rate_decay,
                training.batch,
                training.momentum,
                training.orbit_momentum,
                training.optimiser,
            ),
            links=self.config.run.links,
            round_s=self.config.schedule.round_s,
            seed=self.config.seed,
            rates=build_rates(self.config),
            isl_mbps=isl_mbps(self.config),
            routed=self.config.is_routed,
            server_groups=build_server_groups(self.config),
            unlinked_orbits=self.unlinked_orbits,
            hardware=self.hardware,
            needs=needs,
            geometry=self.plan,
            rehearsal=self.rehearsal,
            sample_bytes=self.data.images.itemsize * int(np.prod(self.spec.image_shape)),
            moves=moves,
        )


def build_world(
    config: Config, progress: Progress | None = None, plan: ContactPlan | None = None
) -> World:
    """Lay out the constellation, load and deal the data, and draw the first model.

    Given a plan, such as that of a run which is resumed, contacts are not computed again.
    """

    if config.run.rounds > config.schedule.rounds:
        raise ConfigError(
            f"run.rounds must be at most schedule.rounds ({config.schedule.rounds}), the horizon "
            f"of the contacts, got {config.run.rounds}; raise schedule.rounds"
        )
    constellation = build_constellation(config)
    activity = build_activity(config, constellation)
    places = build_places(config)
    if plan is None:
        plan = build_plan(config, constellation, progress)
    elif (plan.satellites, plan.servers) != (constellation.satellites, len(places)):
        raise RunError(
            f"the contacts that the run began with are of {plan.satellites} satellites and "
            f"{plan.servers} stations, and its configuration has {constellation.satellites} and "
            f"{len(places)}; start again with --out"
        )
    active_plan = usable_plan(config, plan, activity)
    dataset = load_dataset(config, progress)
    partition = build_partition(config, dataset, constellation, progress)
    classes = len(dataset.class_names)
    shape = dataset.images.shape[1], dataset.images.shape[2], dataset.images.shape[3]
    spec = build_spec(config, shape, classes)
    size_bytes, service = BYTES_PER_PARAMETER * spec.layout.size, None
    if config.is_routed:
        schedule = routed_schedule(config, partition.orbit_of_satellite, active_plan, size_bytes)
    else:
        schedule = build_schedule(config, constellation, active_plan)
    if has_rates(config) and not config.is_routed:
        service = build_service(config, constellation, active_plan, schedule, size_bytes)
        warn_of_short_contacts(service)
        schedule = service.schedule
    unlinked_orbits: tuple[int, ...] = ()
    if config.run.links == "physical" and not config.is_routed:
        unlinked_orbits = orbits_without_ring(config, constellation, progress)
        warn_of_missing_links(unlinked_orbits, constellation.orbits)
    everything = np.sort(np.concatenate(partition.train))
    images = _images(config, dataset, partition)
    scale, shift = standardisation(images, everything)
    data = TrainingData(
        images=images,
        labels=dataset.labels,
        scale=scale,
        shift=shift,
        parts=(*partition.train, *_pools(partition, activity)),
        everything=everything,
    )
    return World(
        config=config,
        constellation=constellation,
        places=places,
        plan=plan,
        active_plan=active_plan,
        schedule=schedule,
        dataset=dataset,
        partition=partition,
        spec=spec,
        data=_as_trained(data, config, spec.classes),
        initial_model=spec.initial_vector(config.seed),
        activity=activity,
        hardware=build_hardware(config, constellation, progress),
        service=service,
        unlinked_orbits=unlinked_orbits,
    )


def build_spec(config: Config, image_shape: tuple[int, int, int], classes: int) -> ModelSpec:
    """Return the model of a configuration, for images of a shape."""
    from fedorbit.learning.models import model_spec

    settings = config.model.model_dump()
    return model_spec(image_shape=image_shape, classes=classes, seed=config.seed, **settings)


def model_bytes(config: Config) -> int:
    """Size of a model as it goes over a link, known without the images."""
    shape, classes = image_shape(config)
    spec = build_spec(config, shape, classes)
    return BYTES_PER_PARAMETER * spec.layout.size


def warn_of_short_contacts(service: Service) -> None:
    """Warn of orbits that are in view and can never exchange a model; refuse if all are so."""
    if not service.never_served:
        return
    orbits, whole = service.never_served, int(service.in_view.visible.any(axis=0).sum())
    why = (
        f"{service.exchange_s:.1f} s are needed, and the longest contact within one round is "
        f"{service.longest_contact_s:.1f} s"
    )
    remedy = "raise the rates in link_rates or schedule.round_s, or choose a smaller model"
    if len(orbits) == whole:
        raise ConfigError(f"no orbit can exchange a model with the ground: {why}; {remedy}")
    warnings.warn(
        f"{len(orbits)} of {whole} orbits that come into view are never so for long enough to "
        f"exchange a model ({_named(orbits)}): {service.exchange_s:.1f} s are needed; {remedy}",
        stacklevel=2,
    )


def warn_of_missing_links(orbits: Sequence[int], whole: int) -> None:
    """Warn of orbits whose satellites do not always see each other, although that is assumed."""
    if orbits:
        warnings.warn(
            f"satellites of {len(orbits)} of {whole} orbits do not always see each other "
            f'({_named(orbits)}), which network.isl = "assumed" takes for granted: what they '
            'exchange is counted as unlinked bytes; set network.isl = "line-of-sight" or "none"',
            stacklevel=2,
        )


def warn_of_orbits_without_routes(fleet: Fleet) -> None:
    """Warn of orbits whose aggregation never ends."""
    orbits, whole = fleet.orbits_without_routes(), fleet.orbits
    if orbits:
        warnings.warn(
            f"{len(orbits)} of {whole} orbits never aggregate ({_named(orbits)}): their satellites "
            "do not all reach each other within schedule.rounds; more rounds, stations or links "
            "(network.isl, network.cross_plane, network.max_range_km) may help",
            stacklevel=2,
        )


def warn_of_idle_satellites(onboard: Onboard) -> None:
    """Warn of satellites that can never train, however long they wait."""
    idle, hardware = onboard.never_able(), onboard.hardware
    if not idle:
        return
    reasons, remedies = [], ["onboard.samples_per_s"]
    if hardware.deadline:
        reasons.append("does not fit into a round")
        remedies.append("schedule.round_s")
        if hardware.isl_mbps is not None:
            remedies.append("link_rates.isl_mbps")
    if hardware.power is not None:
        reasons.append("takes more charge than they ever have")
        remedies.append("what onboard.energy gives")
    warnings.warn(
        f"{len(idle)} of {len(hardware.samples_per_s)} satellites never train ({_named(idle)}): "
        f"one epoch {' or '.join(reasons)}; raise {' or '.join(remedies)}",
        stacklevel=2,
    )


def _named(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers[:8])) + (" …" if len(numbers) > 8 else "")


def _as_trained(data: TrainingData, config: Config, classes: int) -> TrainingData:
    """Return the data with the views and log-priors that are configured for training."""
    training = config.training
    augmentation = Augmentation(
        orientations="orientations" in training.augment,
        shift=training.shift if "shifts" in training.augment else 0,
    )
    parts = (*data.parts, data.everything)
    priors = log_priors(data.labels, parts, classes) if training.calibrate else None
    return replace(data, augmentation=augmentation, log_priors=priors)


def _images(config: Config, dataset: Dataset, partition: Partition) -> Images:
    """Return the images, in memory where they are trained on: batches are gathered at random.

    An engine that sends them to a cluster reads them once, and leaves them on disk.
    """
    if config.engine.kind == "ray":
        return cast(Images, np.asarray(dataset.images))
    return in_memory(dataset.images, np.concatenate([*partition.train, *partition.test]))


def _pools(partition: Partition, activity: Activity) -> list[NDArray[np.int64]]:
    """Samples of all active satellites, per segment between events, as centralised training needs.

    Like samples of further satellites; without events there is no need of them.
    """
    if activity.satellites.all():
        return []
    return [
        np.sort(np.concatenate([partition.train[k] for k in np.flatnonzero(there)] or [NOTHING]))
        for there in activity.satellites
    ]
