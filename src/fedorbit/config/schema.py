"""All settings. Defaults are the paper's values unless a description says otherwise."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, ValidatorFunctionWrapHandler, field_validator, model_validator

from fedorbit.config.bundled import bundled_elements, bundled_name
from fedorbit.config.explain import nearest
from fedorbit.config.images import (
    DataSection,
    DirichletSection,
    GroundTrackSection,
    PathologicalSection,
)
from fedorbit.config.network import NetworkSection
from fedorbit.config.networks import entries_of, is_network, stations_of
from fedorbit.config.onboard import MAX_SATELLITES, LinkRatesSection, OnboardSection
from fedorbit.config.section import Section as Section
from fedorbit.config.tracking import TrackingSection
from fedorbit.orbits.earth import as_utc
from fedorbit.orbits.places import Role, horizon_dip_deg
from fedorbit.orbits.planes import Drifting

SHORT = {"engine": "kind"}
"""Tables that may be written as one word: `engine = "ray"` stands for `engine.kind = "ray"`."""

CHOICES = {"constellation": ("kind", "walker"), "partition": ("scheme", "dirichlet")}
"""Keys that choose what else a table may hold, and what they are when left out."""

MAX_SATELLITES_PER_PLANE = 10_000
MAX_STATIONS = 10_000
FIRST_START, END_OF_STARTS = datetime(1957, 1, 1, tzinfo=UTC), datetime(2201, 1, 1, tzinfo=UTC)


def spelled_out(values: Mapping[str, Any]) -> dict[str, Any]:
    """Write tables that are given as one word in full."""
    words = {table: key for table, key in SHORT.items() if isinstance(values.get(table), str)}
    return {**values, **{table: {key: values[table]} for table, key in words.items()}}


class WalkerSection(Section):
    """A Walker pattern of circular orbits."""

    kind: Literal["walker"] = Field("walker", description="walker, or elements: from a file")
    planes: int = Field(5, ge=1, le=10_000, description="orbital planes, L")
    satellites_per_plane: int | tuple[int, ...] = Field(
        4, description="satellites per plane, N; or a list with one number for each plane"
    )
    phasing: float = Field(0.0, ge=0, description="Walker's F, below the number of planes")
    altitude_km: float = Field(550.0, ge=150, le=50_000, description="above a 6371 km sphere")
    inclination_deg: float = Field(
        53.0, ge=0, le=180, description="angle between the orbits and the equator"
    )
    raan_spread_deg: float = Field(
        360.0,
        gt=0,
        le=360,
        description="divided among the planes; 360: Walker delta, 180: star",
    )
    raan_offset_deg: float = Field(0.0, ge=-360, le=360, description="ascending node of plane 0")
    argument_of_latitude_deg: float = Field(
        80.6, ge=-360, le=360, description="of satellite 0 at t = 0; the paper gives none"
    )

    @field_validator("satellites_per_plane", mode="before")
    @classmethod
    def _one_number_or_several(cls, value: Any) -> int | tuple[int, ...]:
        """Check both forms in one place: the errors of a union would name its branches."""
        counts = value if isinstance(value, list | tuple) else (value,)
        for count in counts:
            if type(count) is not int or not 1 <= count <= MAX_SATELLITES_PER_PLANE:
                raise ValueError(
                    f"must be a whole number at least 1 and at most {MAX_SATELLITES_PER_PLANE}, "
                    f"or a list of such, one for each plane, got {count!r}"
                )
        return tuple(value) if isinstance(value, list | tuple) else value

    @property
    def satellites_of_planes(self) -> tuple[int, ...]:
        """Satellites of each plane."""
        counts = self.satellites_per_plane
        return (counts,) * self.planes if isinstance(counts, int) else counts

    @model_validator(mode="after")
    def _as_many_as_planes(self) -> Self:
        if len(self.satellites_of_planes) != self.planes:
            raise ValueError(
                f"satellites_per_plane must have one entry for each of the {self.planes} planes, "
                f"got {len(self.satellites_of_planes)}; change the list or planes"
            )
        return self

    @model_validator(mode="after")
    def _phasing_below_planes(self) -> Self:
        if self.phasing >= self.planes:
            raise ValueError(
                f"phasing must be below planes ({self.planes}), got {self.phasing:g}; "
                "F in Walker's T/P/F runs from 0 to P - 1"
            )
        return self

    @model_validator(mode="after")
    def _not_too_many(self) -> Self:
        satellites, counts = sum(self.satellites_of_planes), self.satellites_per_plane
        if satellites > MAX_SATELLITES:
            product = f"{self.planes} x {counts} = " if isinstance(counts, int) else ""
            raise ValueError(
                f"planes x satellites_per_plane must be at most {MAX_SATELLITES}, got "
                f"{product}{satellites}; lower one of the two"
            )
        return self


class ElementsSection(Section):
    """Real satellites from a TLE or OMM file, grouped into orbits by plane."""

    kind: Literal["elements"] = Field(description="elements, or walker: a Walker pattern")
    file: Path = Field(
        strict=False,
        description="TLE text, or OMM as CSV, XML or JSON; relative to this file, "
        "or bundled:NAME for one in the package",
    )
    max_age_days: float = Field(14.0, gt=0, le=3650, description="refuse older element sets")
    plane_tolerance_deg: float = Field(
        3.0, gt=0, le=90, description="widest orbit; planes closer than this can be separated"
    )
    altitude_tolerance_km: float = Field(
        50.0, gt=0, le=10_000, description="thickest shell; closer shells can be separated"
    )
    drifting: Drifting = Field(
        "leave-out",
        description="satellites between planes or shells: leave-out, keep (orbits of their own, "
        "after all others) or refuse",
    )

    @field_validator("file")
    @classmethod
    def _known_if_bundled(cls, value: Path) -> Path:
        name = bundled_name(value)
        if name is not None and name not in bundled_elements():
            raise ValueError(
                f"no element set file {name!r} is bundled{nearest(name, bundled_elements())}; "
                f"there are {', '.join(bundled_elements())}"
            )
        return value

    @property
    def path(self) -> Path:
        """The file to read, wherever the package is installed."""
        name = bundled_name(self.file)
        return self.file if name is None else bundled_elements()[name]

    @property
    def is_bundled(self) -> bool:
        """True if the file comes with the package."""
        return bundled_name(self.file) is not None


class ScheduleSection(Section):
    """The rounds over which contacts are computed; tau_max is taken over all of them."""

    rounds: int = Field(
        400, ge=1, le=10_000_000, description="rounds for which contacts are computed"
    )
    round_s: float = Field(300.0, gt=0, le=86_400, description="seconds per round")
    start: datetime | None = Field(
        None,
        description="UTC moment of t = 0; without it the Greenwich meridian is on the x axis "
        "(walker), or t = 0 is the newest epoch (elements)",
    )

    plan: Path | None = Field(
        None,
        strict=False,
        description="file with the contacts, instead of those that geometry gives: CSV, JSON, "
        "ION or HDTN; relative to this file",
    )

    @field_validator("start")
    @classmethod
    def _in_utc(cls, value: datetime | None) -> datetime | None:
        if value is None:
            return None
        if value.tzinfo is None:
            value = value.replace(tzinfo=UTC)
        # Compared before it is converted: a moment near year 1 or 9999 has no other offset.
        if not FIRST_START <= value < END_OF_STARTS:
            raise ValueError(f"must lie in the years 1957 to 2200, got {value.isoformat()}")
        return as_utc(value)


class StationSection(Section):
    """A ground station or a platform: a server that is in contact with satellites."""

    name: str = Field("station", description="as tables and maps show it")
    latitude_deg: float = Field(ge=-90, le=90, description="north of the equator")
    longitude_deg: float = Field(ge=-180, le=180, description="east of Greenwich")
    altitude_km: float = Field(0.0, ge=-0.5, le=100, description="above sea level")
    min_elevation_deg: float = Field(
        10.0,
        ge=-20,
        lt=90,
        description="lowest elevation of a contact; negative where the horizon dips",
    )
    role: Role = Field("ground", description="ground, or platform: an aircraft or balloon")

    @model_validator(mode="after")
    def _above_the_horizon(self) -> Self:
        """Below the Earth's edge there is no line of sight."""
        dip_deg = horizon_dip_deg(self.altitude_km)
        if self.min_elevation_deg < -dip_deg:
            raise ValueError(
                f"min_elevation_deg must be at least {-dip_deg:.2f}, the Earth's edge seen from "
                f"altitude_km {self.altitude_km:g}, got {self.min_elevation_deg:g}; raise one of "
                "the two"
            )
        return self


class EventSection(Section):
    """A satellite or a whole orbit that is lost or launched."""

    round: int = Field(ge=0, le=10_000_000, description="from the beginning of this round, from 0")
    kind: Literal["leave", "join"] = Field(
        description="leave or join; away from the start where the first event is a join"
    )
    orbit: int | None = Field(
        None, ge=0, description="number of the orbit, from 0; either this or satellite"
    )
    satellite: int | None = Field(
        None, ge=0, description="number of the satellite, from 0, counted over all orbits"
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.orbit is None) == (self.satellite is None):
            raise ValueError("set exactly one of orbit and satellite")
        return self

    @property
    def subject(self) -> tuple[Literal["orbit", "satellite"], int]:
        """Return the kind and the index of what leaves or joins."""
        if self.orbit is not None:
            return "orbit", self.orbit
        assert self.satellite is not None
        return "satellite", self.satellite


# The paper gives the latitude alone.
LONDON = StationSection(name="London", latitude_deg=51.0, longitude_deg=-0.1)


class ModelSection(Section):
    """The on-board model."""

    name: str = Field(
        "lenet", description="lenet, resnet, mobilenet, or package.module:factory of your own"
    )
    classifier: str | None = Field(
        None, description="first layer of the classifier; lenet's is fc2, that of others fc"
    )
    options: dict[str, Any] = Field(
        default_factory=dict,
        description="arguments of the model: resnet has depth, base, norm; mobilenet multiplier, "
        "norm",
    )
    buffers: Literal["average", "frozen"] = Field(
        "average",
        description="statistics such as BatchNorm's: average (they travel with the model), or "
        "frozen (first values, never updated); method fedbn keeps them in their orbits",
    )
    frozen: tuple[str, ...] = Field(
        (),
        strict=False,
        description="parameters that are not trained and never travel, by name; such as "
        '["conv1.*"]',
    )
    weights: Path | None = Field(
        None,
        strict=False,
        description="first values from a safetensors file; relative to this file",
    )
    weights_skip: tuple[str, ...] = Field(
        (),
        strict=False,
        description='tensors that the file does not give, by name; such as ["fc3.*"]',
    )

    @model_validator(mode="after")
    def _skips_of_a_file(self) -> Self:
        if self.weights_skip and self.weights is None:
            raise ValueError("weights_skip has no effect without weights; set weights to a file")
        return self

    @field_validator("buffers", mode="before")
    @classmethod
    def _not_local(cls, value: object) -> object:
        if value == "local":
            raise ValueError(
                'must be "average" or "frozen", got "local"; the method fedbn keeps statistics in '
                "their orbits (docs/models.md)"
            )
        return value

    @field_validator("options")
    @classmethod
    def _plain_options(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name, item in value.items():
            if not isinstance(item, str | int | float | list | tuple):
                raise ValueError(
                    f"options.{name} must be a text, a number, true, false or a list, got {item!r}"
                )
        return value


class TrainingSection(Section):
    """Local training, shared by all methods."""

    epochs: int = Field(5, ge=1, le=1000, description="local epochs of a round, E_base")
    intra_rounds: int = Field(
        1, ge=1, le=100, description="intra-orbit rounds of the baselines; the paper gives none"
    )
    batch: int = Field(
        64, ge=1, le=100_000, description="images per step; the last, shorter batch is kept"
    )
    rate: float = Field(0.01, gt=0, le=100, description="learning rate of the first round, eta_0")
    rate_decay: float = Field(0.998, gt=0, le=1, description="factor of the rate per round, gamma")
    optimiser: Literal["sgd", "adam", "adamw"] = Field(
        "sgd", description="adam and adamw by PyTorch alone; state starts at zero in every call"
    )
    momentum: float = Field(
        0.9, ge=0, lt=1, description="of sgd; beta_1 of adam; starts at zero in every call"
    )
    beta2: float = Field(0.999, ge=0, lt=1, description="of adam and adamw")
    epsilon: float = Field(1e-8, gt=0, le=1, description="of adam and adamw")
    weight_decay: float = Field(
        5e-4, ge=0, le=1, description="times the weights, added to the gradient; decoupled in adamw"
    )
    clip_norm: float = Field(
        1.0, ge=0, description="largest norm of the whole gradient; 0: no clipping"
    )
    augment: tuple[Literal["orientations", "shifts"], ...] = Field(
        (),
        strict=False,
        description="random views of training images: the eight orientations of a square, "
        "shifts by some pixels",
    )
    shift: int = Field(4, ge=1, le=127, description="largest shift in pixels")
    calibrate: bool = Field(
        False,
        description="add log-priors to the logits: of a satellite's samples in training, of the "
        "orbit's or satellite's where the model is used",
    )
    orbit_momentum: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="momentum of an orbit's model between intra-orbit rounds; 0: none",
    )
    running_mean: float = Field(
        0.0, ge=0, lt=1, description="decay of the running mean of models that is used; 0: the last"
    )


class RunSection(Section):
    """Settings of a run: methods, rounds, links, evaluation."""

    method: tuple[str, ...] = Field(
        ("fedavg", "ditto", "fedorbit"),
        min_length=1,
        strict=False,
        description="one or several; see `fedorbit methods`, or module:Class of your own",
    )
    rounds: int = Field(
        200, ge=1, le=10_000_000, description="rounds of training, T; at most schedule.rounds"
    )
    links: Literal["ideal", "causal", "physical"] = Field(
        "ideal",
        description="ideal: as the paper's algorithm; causal: no model moves without a contact; "
        "physical: satellites of an orbit need links too, see network.isl",
    )
    evaluate_every: int = Field(
        1, ge=1, le=10_000_000, description="rounds from one evaluation to the next"
    )
    confusion_every: int | None = Field(
        None,
        ge=1,
        le=10_000_000,
        description="rounds between confusion matrices in the records, a multiple of "
        "evaluate_every; the last record always has them",
    )

    @field_validator("method", mode="before")
    @classmethod
    def _one_or_several(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _confusion_where_evaluated(self) -> Self:
        if (self.confusion_every or 0) % self.evaluate_every:
            raise ValueError(
                f"confusion_every must be a multiple of evaluate_every ({self.evaluate_every}), "
                f"got {self.confusion_every}"
            )
        return self


class EngineSection(Section):
    """Settings of execution; none but the backend changes a result."""

    kind: Literal["local", "ray"] = Field(
        "local", description="local: threads of this process; ray: tasks on a Ray cluster"
    )
    backend: Literal["auto", "kernel", "torch"] = Field(
        "auto", description="code that trains; auto: the C kernel for lenet where it was built"
    )
    device: str = Field("cpu", description="for the torch backend: cpu, cuda, cuda:1 …")
    workers: int = Field(
        0, ge=0, le=1024, description="jobs at a time; 0: one per core, of all nodes with ray"
    )
    checkpoint_every: int = Field(
        10, ge=1, le=10_000_000, description="rounds from one checkpoint to the next"
    )
    ray_address: str | None = Field(
        None,
        description="HOST:PORT of the cluster; else RAY_ADDRESS, else Ray starts on this machine",
    )
    ray_data: Literal["object-store", "path"] = Field(
        "object-store",
        description="object-store: images are sent to every node once; path: every node has the "
        "prepared dataset, in its own cache folder or where this machine has it",
    )

    @model_validator(mode="after")
    def _cpu_on_clusters(self) -> Self:
        if self.kind == "ray" and self.device != "cpu":
            raise ValueError(
                f'device must be "cpu" with kind "ray", got {self.device!r}; one process per CPU '
                "would not fit on a GPU"
            )
        return self


class Config(Section):
    """Everything that decides the result of a run."""

    seed: int = Field(0, ge=0, le=2**63 - 1, description="every random draw derives from it")
    constellation: Annotated[WalkerSection | ElementsSection, Field(discriminator="kind")] = (
        WalkerSection()
    )
    schedule: ScheduleSection = ScheduleSection()
    stations: tuple[StationSection, ...] = Field(
        (LONDON,),
        min_length=1,
        max_length=MAX_STATIONS,
        strict=False,
        description='tables, or networks by name such as "ksat"; see `fedorbit config networks`',
    )
    events: tuple[EventSection, ...] = Field(
        (), max_length=10_000, strict=False, description="satellites and orbits that leave or join"
    )
    data: DataSection = DataSection()
    partition: Annotated[
        PathologicalSection | DirichletSection | GroundTrackSection,
        Field(discriminator="scheme"),
    ] = DirichletSection()
    model: ModelSection = ModelSection()
    training: TrainingSection = TrainingSection()
    run: RunSection = RunSection()
    methods: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="parameters, such as methods.fedorbit.rho"
    )
    onboard: OnboardSection | None = Field(
        None, description="speed and energy of satellites; without it training takes no time"
    )
    link_rates: LinkRatesSection | None = Field(
        None, description="rates of links; without it any contact is long enough"
    )
    network: NetworkSection | None = Field(
        None, description="links between satellites; without it those of an orbit are assumed"
    )
    engine: EngineSection = EngineSection()
    tracking: TrackingSection = TrackingSection()

    @field_validator("stations", mode="wrap")
    @classmethod
    def _with_networks(
        cls, value: Any, check: ValidatorFunctionWrapHandler
    ) -> tuple[StationSection, ...]:
        """Put the stations of a network in its place; they are part of the configuration then."""
        entries = entries_of(value)
        if not isinstance(entries, list | tuple):
            return check(value)
        named = [stations_of(entry) if is_network(entry) else None for entry in entries]
        # Something valid stands for networks, so that errors in tables have their right numbers.
        given = [LONDON if n is not None else e for n, e in zip(named, entries, strict=True)]
        checked = check(given)
        stations = tuple(
            station
            for own, tables in zip(checked, named, strict=True)
            for station in (
                (own,) if tables is None else map(StationSection.model_validate, tables)
            )
        )
        if len(stations) > MAX_STATIONS:
            raise ValueError(f"there may be at most {MAX_STATIONS} stations, got {len(stations)}")
        return stations

    @model_validator(mode="after")
    def _isl_rate_needs_a_clock(self) -> Self:
        """A time between satellites is part of the time on board, or of a route."""
        has_rate = self.link_rates is not None and bool(self.link_rates.isl_mbps)
        if has_rate and self.onboard is None and not self.is_routed:
            raise ValueError(
                "link_rates.isl_mbps has no effect without a time on board; set "
                "onboard.samples_per_s too, or let satellites use real links (run.links = "
                '"physical" with network.isl), or leave it out'
            )
        return self

    @model_validator(mode="after")
    def _servers_in_sight_need_routes(self) -> Self:
        """Refuse servers linked by line of sight without routes, where all servers share all."""
        if self.network is not None and self.network.servers != "backhaul" and not self.is_routed:
            raise ValueError(
                f'network.servers = "{self.network.servers}" needs run.links = "physical" and '
                f'network.isl = "line-of-sight" or "none", got "{self.run.links}" and '
                f'"{self.network.isl}"'
            )
        return self

    @property
    def is_routed(self) -> bool:
        """Return whether satellites of an orbit exchange models over contacts of the plan alone."""
        isl = "assumed" if self.network is None else self.network.isl
        return self.run.links == "physical" and isl != "assumed"

    @property
    def torch_only(self) -> str:
        """Return a setting that the C kernel does not support, as it is written; empty if none."""
        if self.training.optimiser != "sgd":
            return f'training.optimiser = "{self.training.optimiser}"'
        return "model.frozen" if self.model.frozen else ""

    @model_validator(mode="after")
    def _events_alternate(self) -> Self:
        """Refuse a second leave without a join in between, and a join of what is active."""
        before: dict[tuple[str, int], EventSection] = {}
        for place, event in sorted(enumerate(self.events), key=lambda entry: entry[1].round):
            last, (what, index) = before.get(event.subject), event.subject
            if last is not None and last.round == event.round:
                raise ValueError(
                    f"events.{place}: {what} {index} has another event in round {event.round}; "
                    "keep one of them"
                )
            if last is not None and last.kind == event.kind:
                state = "away" if event.kind == "leave" else "there"
                raise ValueError(
                    f"events.{place}: {what} {index} cannot {event.kind} in round {event.round}, "
                    f"it is {state} since round {last.round}; remove one of the two events"
                )
            before[event.subject] = event
        return self

    @model_validator(mode="before")
    @classmethod
    def _default_choices(cls, values: Any) -> Any:
        """Fill in `kind` and `scheme` where a file leaves them out: walker and dirichlet."""
        if isinstance(values, dict):
            values = spelled_out(values)
            for section, (key, choice) in CHOICES.items():
                if isinstance(values.get(section), dict):
                    values[section] = {key: choice, **values[section]}
        return values
