from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedorbit.config import Config, load_config
from fedorbit.config.files import dumps, preset_names, preset_summary
from fedorbit.config.images import GroundTrackSection
from fedorbit.config.schema import (
    LONDON,
    ElementsSection,
    ScheduleSection,
    StationSection,
    WalkerSection,
)
from fedorbit.errors import ConfigError
from fedorbit.methods import METHODS, family_of


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        file = tmp_path / "my.toml"
        file.write_text(text)
        return file

    return write


def refusal(file: Path, *overrides: str) -> str:
    with pytest.raises(ConfigError) as error:
        load_config(file, overrides)
    return str(error.value).replace(str(file), "my.toml")


def test_an_empty_file_is_the_papers_constellation_with_synthetic_images(written) -> None:
    config = load_config(written(""))
    assert config == Config()
    assert config.constellation == WalkerSection()
    assert (config.constellation.planes, config.constellation.satellites_per_plane) == (5, 4)
    assert config.data.name == "synthetic"


@pytest.mark.parametrize("preset", preset_names())
def test_presets_load_and_survive_being_printed(preset: str, written) -> None:
    config = load_config(preset)
    assert load_config(written(dumps(config))) == config
    assert preset_summary(preset)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[constellation]\nplaens = 3", "unknown key 'constellation.plaens'; did you mean 'constellation.planes'?"),
        ("[constelation]\nplanes = 3", "unknown key 'constelation'; did you mean 'constellation'?"),
        ("[schedule]\nplanes = 3", "unknown key 'schedule.planes'; did you mean 'constellation.planes'?"),
        ("[zzz]\nx = 1", "unknown key 'zzz'; allowed are seed, constellation,"),
        ("[model]\nbuffers = 'local'", "model.buffers: must be \"average\" or \"frozen\", got \"local\"; the method fedbn"),
        ("[[stations]]\nlatitude_deg = 1\nlongitude_deg = 2\nlat = 3", "unknown key 'stations.0.lat'"),
        ("[partition]\nscheme = 'dirichlet'\nalfa = 1", "unknown key 'partition.alfa'; did you mean 'partition.alpha'?"),
        ("[constellation]\nplanes = 0", "constellation.planes must be at least 1 and at most 10000, got 0"),
        ("[constellation]\nplanes = 2.5", "constellation.planes must be a whole number at least 1 and at most 10000, got 2.5"),
        ("[constellation]\nplanes = true", "constellation.planes must be a whole number"),
        ("[constellation]\naltitude_km = inf", "constellation.altitude_km"),
        ("[constellation]\naltitude_km = nan", "constellation.altitude_km"),
        ("[constellation]\nphasing = 5", "phasing must be below planes (5), got 5"),
        ("[constellation]\nplanes = 1000\nsatellites_per_plane = 201", "planes x satellites_per_plane must be at most 200000, got 1000 x 201 = 201000"),
        ("[constellation]\nsatellites_per_plane = 0", "constellation.satellites_per_plane: must be a whole number at least 1 and at most 10000, or a list of such, one for each plane, got 0"),
        ("[constellation]\nsatellites_per_plane = true", "or a list of such, one for each plane, got True"),
        ("[constellation]\nsatellites_per_plane = [1, 2.0, 3, 4, 5]", "or a list of such, one for each plane, got 2.0"),
        ("[constellation]\nsatellites_per_plane = [1, 2, 3, 4, 10001]", "or a list of such, one for each plane, got 10001"),
        ("[constellation]\nsatellites_per_plane = [1, 2, 3]", "satellites_per_plane must have one entry for each of the 5 planes, got 3; change the list or planes"),
        ("[constellation]\nsatellites_per_plane = []", "satellites_per_plane must have one entry for each of the 5 planes, got 0"),
        ("[constellation]\nplanes = 21\nsatellites_per_plane = [" + "10000, " * 21 + "]", "planes x satellites_per_plane must be at most 200000, got 210000"),
        ("[constellation]\nkind = 'wlaker'", "constellation.kind must be one of walker, elements, got 'wlaker' (did you mean 'walker'?)"),
        ("[constellation]\nkind = 'elements'", "constellation.file is missing"),
        ("[[stations]]\nlatitude_deg = 1\nlongitude_deg = 2\nmin_elevation_deg = 90", "stations.0.min_elevation_deg must be at least -20 and below 90, got 90"),
        ("stations = []", "stations must have at least 1 entry"),
        ("stations = 3", "stations must be a list, got 3"),
        ("schedule = 3", "schedule must be a table, got 3"),
        ("[schedule]\nstart = 'noon'", "schedule.start must be a date and time"),
        ("[data]\nname = 3", "data.name must be a text, got 3"),
        ("[data]\ntest_share = 1", "data.test_share must be above 0 and below 1, got 1"),
        ("[data]\nshare = 0", "data.share must be above 0 and at most 1, got 0"),
        ("[partition]\nalpha = -0.5", "partition.alpha must be above 0"),
        ("[partition]\nscheme = 'iid'", "partition.scheme must be one of pathological, dirichlet, ground-track, got 'iid'"),
        ("[partition]\nscheme = 'ground-track'\nswath_half_width_km = 9\nmin_elevation_deg = 9", "exclude each other"),
        ("seed = -1", "seed must be at least 0"),
        ("[[events]]\nround = 1\nkind = 'leave'", "events.0: set exactly one of orbit and satellite"),
        ("[[events]]\nround = 1\nkind = 'leave'\norbit = 1\nsatellite = 2", "events.0: set exactly one of orbit and satellite"),
        ("[[events]]\nround = 1\nkind = 'lose'\norbit = 1", "events.0.kind must be one of 'leave', 'join', got 'lose'"),
        ("[[events]]\nround = -1\nkind = 'leave'\norbit = 1", "events.0.round must be at least 0 and at most 10000000, got -1"),
        ("[[events]]\nkind = 'leave'\norbit = 1", "events.0.round is missing"),
        ("[[events]]\nround = 1\nkind = 'leave'\nplane = 1", "unknown key 'events.0.plane'"),
        ("events = 3", "events must be a list, got 3"),
        ("events = [{round=5, kind='leave', orbit=1}, {round=2, kind='leave', orbit=1}]",
         "events.0: orbit 1 cannot leave in round 5, it is away since round 2; remove one of the two events"),
        ("events = [{round=2, kind='join', satellite=1}, {round=5, kind='join', satellite=1}]",
         "events.1: satellite 1 cannot join in round 5, it is there since round 2"),
        ("events = [{round=2, kind='join', orbit=1}, {round=2, kind='leave', orbit=1}]",
         "events.1: orbit 1 has another event in round 2; keep one of them"),
        ("[onboard]\nsamples_per_s = 0", "onboard.samples_per_s: must be at least 1e-9 and at most 1e12, got 0"),
        ("[onboard]\nsamples_per_s = [1, 'x']", "onboard.samples_per_s.1 must be a number, got 'x'"),
        ("[onboard]\nsamples_per_s = true", "onboard.samples_per_s: must be a number, or a list of one per satellite, got True"),
        ("[onboard]\ndeadline = true", "onboard.samples_per_s is missing: training samples per second"),
        ("[onboard]\nsamples_per_s = 1\n[onboard.energy]\nsolar_w = 1\ntraining_w = 1", "onboard.energy.battery_wh is missing: usable capacity"),
        ("[onboard]\nsamples_per_s = 1\nspeed = 2", "unknown key 'onboard.speed'"),
        ("[link_rates]\nto_ground_mbps = 0", "link_rates.to_ground_mbps must be at least 1e-06"),
        ("[link_rates]\nisl_mbps = 1", "link_rates.isl_mbps has no effect without a time on board; set onboard.samples_per_s too"),
        ("[constellation", "is not valid TOML"),
        ("extends = 'papre'", "extends must name a preset, got 'papre' (did you mean 'paper'?)"),
    ],
)  # fmt: skip
def test_mistakes_get_one_sentence_with_the_remedy(written, text: str, expected: str) -> None:
    message = refusal(written(text))
    assert expected in message
    assert message.startswith("my.toml")
    assert "\n" not in message


def test_hardware_is_read_overridden_and_printed(written) -> None:
    file = written("[onboard]\nsamples_per_s = 20\n[onboard.energy]\nbattery_wh = 1\nsolar_w = 2\n"
                   "training_w = 3\n[link_rates]\nto_ground_mbps = 0.5\n")  # fmt: skip
    config = load_config(file, ["onboard.samples_per_s=[1, 2.5]", "onboard.energy.solar_w=4"])
    assert config.onboard is not None and config.link_rates is not None
    assert config.onboard.samples_per_s == (1.0, 2.5)
    assert config.onboard.energy is not None
    assert (config.onboard.energy.solar_w, config.onboard.energy.initial_charge) == (4.0, 1.0)
    assert load_config(written(dumps(config))) == config
    assert load_config("paper").onboard is None


def test_events_are_read_overridden_and_printed(written) -> None:
    leaving = {"round": 2, "kind": "leave", "orbit": 1}
    joining = {"round": 4, "kind": "join", "satellite": 1}  # another one, although of that orbit
    config = Config.model_validate({"events": [leaving, joining]})
    assert [event.subject for event in config.events] == [("orbit", 1), ("satellite", 1)]
    assert load_config(written(dumps(config))) == config
    text = "events=[{round=2, kind='leave', orbit=1}, {round=4, kind='join', satellite=1}]"
    assert load_config(written(""), [text]) == config
    assert Config().events == ()


def test_quickstart_is_the_papers_setting_with_other_images() -> None:
    quickstart, paper = load_config("quickstart"), load_config("paper")
    assert quickstart.data.name == "synthetic"
    same = {"constellation", "schedule", "stations", "partition", "training", "seed"}
    assert quickstart.model_dump(include=same) == paper.model_dump(include=same)


def test_several_mistakes_are_told_at_once(written) -> None:
    message = refusal(written("seed = -1\n[constellation]\nplanes = 0\nplaens = 1"))
    assert len(message.splitlines()) == 3


def test_neither_preset_nor_file() -> None:
    with pytest.raises(ConfigError, match=r"'papper' is neither .*did you mean 'paper'"):
        load_config("papper")
    with pytest.raises(ConfigError, match=r"folder/none\.toml does not exist"):
        load_config("folder/none.toml")


def test_a_file_extends_a_preset_and_states_only_what_differs(written) -> None:
    config = load_config(
        written(
            "extends = 'paper'\n[constellation]\nplanes = 7\n[partition]\nscheme='pathological'"
        )
    )
    paper = load_config("paper")
    assert config.constellation.planes == 7
    assert config.constellation.altitude_km == paper.constellation.altitude_km
    # Another scheme starts its table afresh: Dirichlet's alpha does not leak into it.
    assert config.partition.scheme == "pathological"
    assert config.data == paper.data


def test_overrides_are_toml_values_or_plain_text(written) -> None:
    config = load_config(
        "paper",
        [
            "constellation.planes=7",
            "partition.scheme=pathological",
            "stations.0.name=Tromsø",
            "schedule.start=2026-03-01T12:00:00Z",
            'data.name="so2sat"',
        ],
    )
    assert config.constellation.planes == 7
    assert config.partition.scheme == "pathological"
    assert config.stations[0].name == "Tromsø"
    assert config.stations[0].latitude_deg == 51.0
    assert config.schedule.start == datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert config.data.name == "so2sat"


@pytest.mark.parametrize(
    "override", ["planes", "=3", "a..b=3", "stations.5.name=x", "stations.x=1"]
)
def test_broken_overrides(override: str) -> None:
    with pytest.raises(ConfigError, match="must look like"):
        load_config("paper", [override])


def test_an_override_reaches_a_default_station(written) -> None:
    config = load_config(written(""), ["stations.0.latitude_deg=69"])
    assert config.stations == (LONDON.model_copy(update={"latitude_deg": 69.0}),)


@pytest.mark.parametrize("missing", ["latitude_deg", "longitude_deg"])
def test_a_station_without_a_place_is_refused(written, missing: str) -> None:
    place = {"latitude_deg": 3, "longitude_deg": 4}
    del place[missing]
    [(key, value)] = place.items()
    message = refusal(written(f"[[stations]]\nname = 'Kiruna'\n{key} = {value}"))
    assert f"stations.0.{missing} is missing" in message


ORDERS = [
    ["partition.swath_half_width_km=100", "partition.scheme=ground-track"],
    ["partition.scheme=ground-track", "partition.swath_half_width_km=100"],
]


@pytest.mark.parametrize("overrides", ORDERS)
def test_the_order_of_overrides_does_not_matter(overrides: list[str]) -> None:
    expected = GroundTrackSection(scheme="ground-track", swath_half_width_km=100.0)
    assert load_config("paper", overrides).partition == expected
    elements = ["constellation.file=x.tle", "constellation.kind=elements"]
    for order in (elements, elements[::-1]):
        assert load_config("paper", order).constellation.file == Path("x.tle")
    stations = ["stations.0.name=a", "stations=[{latitude_deg=1, longitude_deg=2}]"]
    for order in (stations, stations[::-1]):
        [station] = load_config("paper", order).stations
        assert station == StationSection(name="a", latitude_deg=1.0, longitude_deg=2.0)


def test_of_two_overrides_of_one_key_the_last_counts() -> None:
    config = load_config("paper", ["seed=1", "partition.scheme=pathological",
                                   "partition.scheme=dirichlet", "seed=2"])  # fmt: skip
    assert config.seed == 2
    assert config.partition.scheme == "dirichlet"


def test_an_override_that_does_not_fit_the_choice_is_refused(written) -> None:
    message = refusal(written(""), "partition.alpha=1", "partition.scheme=pathological")
    assert "unknown key 'partition.alpha'" in message


def test_choosing_what_is_the_default_anyway_keeps_the_table(written) -> None:
    file = written("[partition]\nalpha = 0.3")
    assert load_config(file, ["partition.scheme=dirichlet"]).partition.alpha == 0.3


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["stations=5", "stations.0.name=x"], "stations must be a list, got 5"),
        (["stations=[5]", "stations.0.name=x"], "stations.0 must be a table, got 5"),
        (["stations=[]", "stations.0.name=x"], "stations must have at least 1 entry"),
        (["seed=" + "9" * 5000], "seed must be a whole number"),
    ],
)
def test_malformed_values_are_left_to_validation(written, overrides, expected: str) -> None:
    assert expected in refusal(written(""), *overrides)


def test_a_file_with_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "bom.toml"
    file.write_bytes(b"\xef\xbb\xbfseed = 3\n")
    assert load_config(file).seed == 3


def test_a_folder_is_no_configuration(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a folder; give a TOML file"):
        load_config(tmp_path)


MOMENT = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    "text", ["2026-03-01T12:00:00Z", "2026-03-01T12:00:00", "2026-03-01T17:30:00+05:30"]
)
def test_a_start_is_in_utc_however_it_is_written(written, text: str) -> None:
    start = load_config("paper", [f"schedule.start={text}"]).schedule.start
    assert start == MOMENT
    assert start.utcoffset() == timedelta(0)
    assert load_config(written(f"[schedule]\nstart = {text}")).schedule.start == MOMENT


@pytest.mark.parametrize(
    "text",
    ["9999-12-31T23:00:00-05:00", "9999-12-31T23:00:00", "0001-01-01T00:00:00+05:00",
     "1956-12-31T23:59:59Z", "2201-01-01T00:00:00Z", "1957-01-01T00:30:00+01:00"],
)  # fmt: skip
def test_a_start_outside_the_space_age_is_refused(written, text: str) -> None:
    message = refusal(written(f"[schedule]\nstart = {text}"))
    assert "schedule.start: must lie in the years 1957 to 2200, got " in message


@given(
    start=st.datetimes(datetime(1958, 1, 1), datetime(2200, 1, 1)),
    offset_min=st.integers(-1439, 1439) | st.none(),
)
def test_a_start_survives_being_printed(tmp_path_factory, start, offset_min) -> None:
    if offset_min is not None:
        start = start.replace(tzinfo=timezone(timedelta(minutes=offset_min)))
    config = Config(schedule=ScheduleSection(start=start))
    file = tmp_path_factory.mktemp("config") / "printed.toml"
    file.write_text(dumps(config), encoding="utf-8")
    assert load_config(file) == config


def test_paths_are_relative_to_the_file_that_names_them(written, tmp_path: Path) -> None:
    config = load_config(written("[constellation]\nkind='elements'\nfile='sets/iridium.tle'"))
    assert isinstance(config.constellation, ElementsSection)
    assert config.constellation.file == tmp_path / "sets" / "iridium.tle"


def test_each_plane_may_have_its_number_of_satellites(written) -> None:
    config = load_config("paper", ["constellation.satellites_per_plane=[3, 1, 4, 1, 5]"])
    assert config.constellation.satellites_of_planes == (3, 1, 4, 1, 5)
    printed = dumps(config)
    assert "satellites_per_plane = [3, 1, 4, 1, 5]" in printed
    assert load_config(written(printed)) == config
    assert config.model_dump(mode="json")["constellation"]["satellites_per_plane"] == [
        3,
        1,
        4,
        1,
        5,
    ]
    assert WalkerSection().satellites_of_planes == (4, 4, 4, 4, 4)


@pytest.mark.parametrize(
    "uri", ["http://me:s3cret@mlflow.example.org", "postgresql://me:s3cr@t@localhost/mlflow"]
)
def test_passwords_are_refused_since_configurations_are_kept(uri: str) -> None:
    with pytest.raises(ConfigError, match=r"mlflow_uri: must not hold a password.*; set") as told:
        load_config("quickstart", [f"tracking.mlflow_uri={uri}"])
    assert "s3cr" not in str(told.value)


@pytest.mark.parametrize(
    "uri", ["http://mlflow.example.org:5000", "sqlite:///a@b.db", "http://me@localhost:1/a:b@c"]
)
def test_other_addresses_of_trackers_are_taken(uri: str) -> None:
    assert load_config("quickstart", [f"tracking.mlflow_uri={uri}"]).tracking.mlflow_uri == uri


def test_a_configuration_does_not_change(written) -> None:
    config = load_config(written(""))
    with pytest.raises(ValueError, match="frozen"):
        config.seed = 3  # type: ignore[misc]


@given(name=st.text(min_size=1), latitude_deg=st.floats(-90, 90), planes=st.integers(1, 10_000))
def test_printing_and_reading_is_the_identity(tmp_path_factory, name, latitude_deg, planes) -> None:
    config = Config(
        constellation=WalkerSection(planes=planes),
        stations=(LONDON.model_copy(update={"name": name, "latitude_deg": latitude_deg}), LONDON),
    )
    file = tmp_path_factory.mktemp("config") / "printed.toml"
    file.write_text(dumps(config), encoding="utf-8", newline="")
    assert load_config(file) == config


@pytest.mark.parametrize(
    ("override", "methods"),
    [
        ("methods.fedorbit.rho=0.5", {"fedorbit": {"rho": 0.5}}),
        ("methods.mine:Method.trim=3", {"mine:Method": {"trim": 3}}),
        ("methods.a.b.mine:Method.trim=3", {"a.b.mine:Method": {"trim": 3}}),
        ("methods.a.mine:Method={trim=3}", {"a.mine:Method": {"trim": 3}}),
        ("methods={fedorbit={rho=0.5}}", {"fedorbit": {"rho": 0.5}}),
    ],
)
def test_overrides_of_methods(override: str, methods: dict[str, dict[str, object]]) -> None:
    assert load_config("paper", [override]).methods == methods


def test_the_papers_preset_compares_its_methods_with_floor_and_ceiling() -> None:
    compared = {"fedavg", "fedprox", "apfl", "ditto", "fedorbit"}
    references = {name for name in METHODS if family_of(name) == "reference"}
    assert set(load_config("paper").run.method) == compared | references


def test_the_engine_may_be_named_in_one_word(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('engine = "ray"\nextends = "paper"\n')
    for config in (
        load_config(file, ["engine.workers=3"]),
        load_config("paper", ["engine.workers=3", "engine=ray"]),
        load_config("paper", ["engine=ray", "engine.workers=3"]),
    ):
        assert (config.engine.kind, config.engine.workers) == ("ray", 3)
    assert Config.model_validate({"engine": "ray"}).engine.kind == "ray"
    with pytest.raises(ConfigError, match=r"engine\.kind must be one of 'local', 'ray', got 'rya'"):
        load_config("paper", ["engine=rya"])


def test_a_cluster_trains_on_cpus() -> None:
    with pytest.raises(ConfigError, match='device must be "cpu" with kind "ray", got \'cuda\''):
        load_config("paper", ["engine=ray", "engine.device=cuda"])
