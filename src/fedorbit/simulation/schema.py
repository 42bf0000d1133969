"""The shapes of the files in a run's folder: records, summary, world file, checkpoint, manifest.

Readers check a file against its shape before they use it, so that a damaged or foreign file is one
sentence that names the key. Keys that a shape does not name are allowed: methods add facts of their
own, and later versions more.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, NotRequired

from annotated_types import Ge, Gt, Le, Len, MinLen
from pydantic import AfterValidator, ConfigDict, StringConstraints, TypeAdapter, with_config
from typing_extensions import TypeAliasType, TypedDict

from fedorbit.orbits.plan_files import PlanShape

STRICT = ConfigDict(strict=True, allow_inf_nan=False)

Count = Annotated[int, Ge(0)]
Percent = float | None
"""A number in percent; None where nothing was evaluated."""
Transfers = Annotated[list[Annotated[int, Ge(-1)]], Len(4, 4)]
"""Source, target, messages and bytes; -1 is the ground as a whole."""
RecordedHop = Annotated[list[Annotated[int, Ge(0), Le(2**53)]], Len(3, 3)]
"""Second, source and target of a message over a link."""
Sha256 = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
FileName = Annotated[str, StringConstraints(pattern=r"^[^/\\]*[^./\\][^/\\]*$")]
"""A file of a run's folder itself: no path to elsewhere."""


@with_config(STRICT)
class NotedShape(TypedDict):
    """Numbers that a method noted under one name."""

    count: Annotated[int, Gt(0)]
    mean: float
    max: float
    last: float


@with_config(STRICT)
class RecordShape(TypedDict):
    """One evaluated round; lists have one entry per orbit."""

    round: Count
    hours: NotRequired[float]
    visible: list[Count]
    satellites_in_view: NotRequired[Count]
    present: NotRequired[list[Count]]
    accuracy: Percent
    spread: Percent
    orbit_accuracy: list[Percent]
    orbit_loss: list[float | None]
    samples_trained: Count
    to_ground_bytes: Count
    from_ground_bytes: Count
    isl_bytes: Count
    unlinked_bytes: Count
    epochs: list[Count]
    onboard_s: NotRequired[list[float]]
    epochs_asked: NotRequired[list[Count]]
    epochs_done: NotRequired[list[Count]]
    charge_lowest: NotRequired[list[float]]
    charge_mean: NotRequired[list[float]]
    noted: NotRequired[dict[str, NotedShape]]
    confusion: NotRequired[list[list[list[Count]] | None]]
    hops: NotRequired[list[RecordedHop]]
    seconds: float


PER_ORBIT = (
    "orbit_accuracy", "orbit_loss", "epochs", "onboard_s", "epochs_asked", "epochs_done",
    "charge_lowest", "charge_mean", "confusion",
)  # fmt: skip


def _fits_itself(record: RecordShape) -> RecordShape:
    orbits = len(record["orbit_accuracy"])
    for key in PER_ORBIT:
        length = len(record.get(key, record["orbit_accuracy"]))  # type: ignore[arg-type]
        if length != orbits:
            raise ValueError(f"{key} has {length} entries, orbit_accuracy {orbits}")
    _require_known("visible", "an orbit", record["visible"], orbits)
    _require_known("present", "an orbit", record.get("present", []), orbits)
    matrices = [matrix for matrix in record.get("confusion", []) if matrix is not None]
    sides = {len(matrix) for matrix in matrices} | {len(row) for m in matrices for row in m}
    if len(sides) > 1:
        raise ValueError("confusion has a matrix that is not square, or of other classes")
    return record


def _require_known(key: str, kind: str, named: Sequence[int], count: int) -> None:
    if any(not 0 <= number < count for number in named):
        raise ValueError(f"{key} names {kind} that is none of the {count}")


RECORD: TypeAdapter[Any] = TypeAdapter(Annotated[RecordShape, AfterValidator(_fits_itself)])


@with_config(STRICT)
class IntegrityShape(TypedDict):
    """Checksums that bind a summary to its run."""

    run_id: Sha256
    records: Sha256


@with_config(STRICT)
class OnboardShape(TypedDict):
    """Time and charge on board in a summary."""

    busy_rounds: list[Count]
    late_rounds: list[Count]


@with_config(STRICT)
class SummaryShape(TypedDict):
    """Results of a finished method; runs of earlier versions lack some of them."""

    method: NotRequired[str]
    accuracy: Percent
    spread: Percent
    per_orbit: NotRequired[list[Percent]]
    balanced_accuracy: NotRequired[Percent]
    macro_f1: NotRequired[Percent]
    similarity: NotRequired[float | None]
    beta: NotRequired[float | None]
    rounds: Count
    links: NotRequired[str]
    isl: NotRequired[str]
    unlinked_orbits: NotRequired[list[Count]]
    noted: NotRequired[dict[str, NotedShape]]
    offloaded: NotRequired[list[dict[str, Count]]]
    samples_trained: NotRequired[Count]
    to_ground_bytes: NotRequired[Count]
    from_ground_bytes: NotRequired[Count]
    isl_bytes: NotRequired[Count]
    unlinked_bytes: NotRequired[Count]
    transfers: NotRequired[list[Transfers]]
    seconds: float
    to_ground_vs_fedavg: NotRequired[float | None]
    parameters: NotRequired[Count]
    tau_max: NotRequired[Count]
    onboard: NotRequired[OnboardShape]
    service: NotRequired[dict[str, Any]]
    provenance: NotRequired[dict[str, str | None]]
    integrity: NotRequired[IntegrityShape]
    sha256: NotRequired[Sha256]


SUMMARY_FILE: TypeAdapter[Any] = TypeAdapter(SummaryShape)


@with_config(STRICT)
class StationShape(TypedDict):
    """A station or platform on the map."""

    name: str
    role: NotRequired[str]
    latitude_deg: float
    longitude_deg: float
    altitude_km: NotRequired[float]
    min_elevation_deg: float
    radius_deg: float


@with_config(STRICT)
class PositionsShape(TypedDict):
    """Sub-satellite points on the map, `[round][satellite]`."""

    of_satellites: Count
    satellites: list[Count]
    orbit_of_satellite: list[Count]
    names: list[str]
    every_round: Annotated[int, Gt(0)]
    latitude_deg: list[list[float]]
    longitude_deg: list[list[float]]
    seen: list[list[Count]]
    away: NotRequired[list[list[Count]]]


@with_config(STRICT)
class PlacesShape(TypedDict):
    """Samples per orbit in squares of latitude and longitude."""

    bin_deg: Annotated[float, Gt(0)]
    rows: list[Annotated[list[int], Len(4, 4)]]


@with_config(STRICT)
class InputShape(TypedDict):
    """Input of a model: images as they are stored, and their standardisation per channel."""

    dtype: Literal["uint8", "uint16", "float32"]
    file_bands: NotRequired[Count]
    kept_bands: NotRequired[list[Annotated[int, Gt(0)]]]
    scale: list[float]
    shift: list[float]


@with_config(STRICT)
class CardShape(InputShape):
    """Metadata of an exported model."""

    model: str
    layer: str | None
    classes: Annotated[list[str], MinLen(1)]
    image_shape: Annotated[list[Annotated[int, Gt(0)]], Len(3, 3)]
    method: str
    serves: str
    rounds: Count
    options: NotRequired[dict[str, Any]]
    log_prior: NotRequired[list[float]]


def _fits_its_channels(card: CardShape) -> CardShape:
    if len(card.get("log_prior", ())) not in (0, len(card["classes"])):
        raise ValueError(f"log_prior has {len(card['log_prior'])} values, one per class is wanted")
    channels, kept = card["image_shape"][2], card.get("kept_bands", [])
    if max(kept, default=0) > (of := card.get("file_bands", 0)):
        raise ValueError(f"kept_bands has {max(kept)}, but files have {of} bands")
    per_channel: tuple[tuple[str, list[Any]], ...] = (
        ("scale", card["scale"]),
        ("shift", card["shift"]),
        ("kept_bands", kept or [0] * channels),
    )
    for key, values in per_channel:
        if len(values) != channels:
            raise ValueError(f"{key} has {len(values)} values for {channels} channels")
    return card


CARD: TypeAdapter[Any] = TypeAdapter(Annotated[CardShape, AfterValidator(_fits_its_channels)])


@with_config(STRICT)
class WorldShape(TypedDict):
    """Facts that a run's configuration fixes before its first round.

    Format 1 had neither passes nor contacts.
    """

    format: Count
    dataset: str
    classes: Annotated[list[str], MinLen(1)]
    image_shape: list[Count]
    input: NotRequired[InputShape]
    orbit_class_counts: Annotated[list[list[Count]], MinLen(1)]
    test_class_counts: list[list[Count]]
    satellite_samples: list[Count]
    unseen_samples: Count
    similarity: list[list[float]] | None
    beta: float
    rounds: Annotated[int, Gt(0)]
    round_s: Annotated[float, Gt(0)]
    horizon_rounds: Count
    tau_max: Count
    visible: list[list[Annotated[list[Count], Len(2, 2)]]]
    """Rounds in view per orbit: the first round, and the first that is no longer in view."""
    passes: NotRequired[list[Count]]
    """Contacts of active satellites with a station in the rounds of the run, per orbit."""
    contacts: NotRequired[PlanShape]
    """The contact plan over the horizon; its arrays may be in contacts.npy instead."""
    stations: list[StationShape]
    positions: PositionsShape
    places: PlacesShape | None


def _is_consistent(world: WorldShape) -> WorldShape:
    orbits, classes = len(world["orbit_class_counts"]), len(world["classes"])
    positions = world["positions"]
    satellites, steps = len(positions["satellites"]), len(positions["latitude_deg"])
    lengths: list[tuple[str, Sequence[Sequence[Any]], int, int | None]] = [
        ("orbit_class_counts", world["orbit_class_counts"], orbits, classes),
        ("test_class_counts", world["test_class_counts"], orbits, classes),
        ("similarity", world["similarity"] or [], orbits, orbits),
        ("visible", world["visible"], orbits, None),
        ("positions.latitude_deg", positions["latitude_deg"], steps, satellites),
        ("positions.longitude_deg", positions["longitude_deg"], steps, satellites),
        ("positions.seen", positions["seen"], steps, None),
        ("positions.away", positions.get("away", []), steps, None),
    ]
    if "passes" in world and len(world["passes"]) != orbits:
        raise ValueError(f"passes has {len(world['passes'])} entries instead of {orbits}")
    if world["format"] > 1 and not {"passes", "contacts"} <= world.keys():
        raise ValueError(f"passes and contacts are missing, which format {world['format']} has")
    for key, rows, height, width in lengths:
        if rows and len(rows) != height:
            raise ValueError(f"{key} has {len(rows)} rows instead of {height}")
        if width is not None and any(len(row) != width for row in rows):
            raise ValueError(f"{key} has a row that is not of {width} entries")
    if not len(positions["orbit_of_satellite"]) == len(positions["names"]) == satellites:
        raise ValueError(f"positions names more or fewer than {satellites} satellites")
    _require_known("positions", "an orbit", positions["orbit_of_satellite"], orbits)
    named = [k for row in (*positions["seen"], *positions.get("away", [])) for k in row]
    _require_known("positions", "a satellite", named, satellites)
    if "contacts" in world:
        planned = world["contacts"]["satellites"]
        _require_known("positions", "a satellite", positions["satellites"], planned)
    places = world["places"]["rows"] if world["places"] is not None else []
    _require_known("places", "an orbit", [row[2] for row in places], orbits)
    return world


WORLD_FILE: TypeAdapter[Any] = TypeAdapter(Annotated[WorldShape, AfterValidator(_is_consistent)])


@with_config(STRICT)
class TallyShape(TypedDict):
    """Clocks and batteries between two rounds."""

    round: Count
    charge_j: list[float]
    onboard_s: list[float]
    epochs_asked: list[Count]
    epochs_done: list[Count]
    longest_s: list[float]
    busy_rounds: list[Count]
    late_rounds: list[Count]
    asked: Count
    done: Count
    lowest_charge: list[float]


@with_config(STRICT)
class HopsShape(TypedDict):
    """Messages over links since the last record: number, second, source and target of each."""

    kept: list[Annotated[list[Annotated[float, Ge(0), Le(2**53)]], Len(4, 4)]]
    seen: Annotated[int, Ge(0), Le(2**53)]
    share: Annotated[float, Gt(0), Le(1)]


@with_config(STRICT)
class LedgerShape(TypedDict):
    """Costs of a run when a checkpoint was written."""

    samples_trained: Count
    to_ground_bytes: Count
    from_ground_bytes: Count
    isl_bytes: Count
    unlinked_bytes: Count
    epochs: list[Count]
    transfers: NotRequired[list[Transfers]]
    hops: NotRequired[HopsShape]


Facts = dict[str, bool | int | float | str]


@with_config(STRICT)
class HopShape(TypedDict):
    """A link that a message has still to pass over, and when it will have."""

    source: Count
    target: Count
    slot: Count
    linked: bool
    at_s: NotRequired[float]


@with_config(STRICT)
class TakenShape(TypedDict):
    """Seconds of a contact that messages take in a slot."""

    first: Count
    second: Count
    slot: Count
    seconds: float


@with_config(STRICT)
class MailShape(TypedDict):
    """A message under way; `payload` names its array, and `part` that of a mask."""

    source: Count
    target: Count
    payload: str
    sent: Count
    arrival: Count
    about: Facts
    size: Count
    part: str | Annotated[list[Count], Len(2, 2)] | None
    arrival_s: float
    size_bytes: Count
    hops: list[HopShape]


@with_config(STRICT)
class JobShape(TypedDict):
    """A job under way; `start`, `model` and `extra` name arrays."""

    satellite: Count
    begun: Count
    end_s: float | None
    about: Facts
    start: str
    model: str
    steps: Count
    extra: dict[str, str]
    images: Count
    epochs: Count
    booked: bool


Shelved = TypeAliasType("Shelved", "str | list[Shelved]")
"""A result under way: the name of an array, or a list of names for a tuple."""


@with_config(STRICT)
class ResultShape(TypedDict):
    """Values that a program of an orbit returned; `key` is the orbit, or its complement."""

    key: int
    result: Shelved


@with_config(STRICT)
class CycleShape(TypedDict):
    """An aggregation of an orbit under way."""

    orbit: Count
    purpose: int
    begun: Count
    end_s: float | None
    members: list[Count]
    samples: Count
    upload: bool
    results: list[ResultShape]


@with_config(STRICT)
class NoteShape(TypedDict):
    """Numbers that a method noted under one name since the last record."""

    count: Count
    total: float
    greatest: float
    last: float


@with_config(STRICT)
class SpentShape(TypedDict):
    """The world's part of a checkpoint: what was spent, and what is under way."""

    ledger: LedgerShape
    mail: list[MailShape]
    contact_s: NotRequired[list[TakenShape]]
    jobs: list[JobShape]
    onboard: NotRequired[TallyShape]
    cycles: NotRequired[list[CycleShape]]
    notes: NotRequired[dict[str, NoteShape]]
    seconds: float


@with_config(STRICT)
class SealedShape(TypedDict):
    """Keys that checkpoints of all formats have."""

    format: NotRequired[Count]
    sha256: Sha256


SEALED_FILE: TypeAdapter[Any] = TypeAdapter(SealedShape)


@with_config(STRICT)
class CheckpointShape(TypedDict):
    """The numbers of a checkpoint; its arrays are in a file beside it."""

    format: Count
    run_id: Sha256
    rounds_done: Count
    spent: SpentShape
    records_bytes: Count
    records: Sha256
    arrays_sha256: Sha256
    arrays_bytes: Count
    sha256: Sha256


CHECKPOINT_FILE: TypeAdapter[Any] = TypeAdapter(CheckpointShape)


@with_config(STRICT)
class ManifestShape(TypedDict):
    """Manifest that binds the files of a run together."""

    format: Count
    settings: dict[str, Any]
    files: dict[FileName, Sha256]
    code: dict[str, Sha256]
    sha256: Sha256


MANIFEST_FILE: TypeAdapter[Any] = TypeAdapter(ManifestShape)


@with_config(STRICT)
class TrackedShape(TypedDict):
    """Run of MLflow or Weights & Biases to which a method is logged."""

    run_id: Annotated[str, StringConstraints(pattern=r"^[\w-]+$")]


TRACKED_FILE: TypeAdapter[Any] = TypeAdapter(TrackedShape)
