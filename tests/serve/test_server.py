"""The command with real requests: what it lists, what it refuses, and how it ends."""

import json
import re
import shutil
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest

pytest.importorskip("starlette", reason="the extra serve is not installed")
from fedorbit.cli.commands import execute
from fedorbit.report.page import write_page
from fedorbit.report.replicates import compare
from fedorbit.report.runfiles import read_runs
from fedorbit.serve.app import MOST_FOLLOWERS
from fedorbit.serve.catalog import Catalog, MethodState
from fedorbit.serve.pages import list_page
from tests.patience import wait_until
from tests.report import run_folders as by_hand
from tests.serve.command import Served, serving
from tests.serve.run_folders import add_rounds, write_run

EVIL = "<img src=x onerror=alert(1)>"
SECRET = "a secret outside of the folder"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs, a study, and what somebody may have put beside them."""
    place = tmp_path_factory.mktemp("served")
    root, outside = place / "runs", place / "outside"
    add_rounds(write_run(root / "plain"), [50.0, 60.0])
    write_run(root / "begun")
    by_hand.write_sweep(root / "sweep")
    by_hand.write_run(root / EVIL, {EVIL: 30.0}, setting=by_hand.world(station=EVIL))
    (root / "broken").mkdir()
    (root / "broken" / "config.toml").write_text("seed = [")
    add_rounds(write_run(outside / "other"), [50.0])
    (outside / "study.toml").write_text(f'title = "{SECRET}"\ncells = []\n')
    (root / "linked").symlink_to(outside)
    by_hand.write_run(root / "with-a-link", {"fedavg": 50.0})
    (root / "with-a-link" / "world.json").symlink_to(outside / "other" / "world.json")
    by_hand.write_run(root / "linked-study" / "run", {"fedavg": 50.0})
    (root / "linked-study" / "study.toml").symlink_to(outside / "study.toml")
    return root


@pytest.fixture(scope="module")
def served(folder: Path) -> Iterator[Served]:
    with serving(folder) as found:
        yield found


def test_it_lists_runs_and_studies_and_no_links(served: Served, folder: Path) -> None:
    document = served.document
    states = {run["name"]: run for run in document["runs"]}
    sweep = {f"sweep/{name}-0" for name in ("0.0", "0.5", "2.0", "fedavg")}
    assert states.keys() == {"plain", "begun", EVIL, "broken", "with-a-link", *sweep}
    assert document["studies"] == [{"name": "sweep", "title": "kappa"}]
    assert document["folder"] == str(folder)
    assert document["left_out"] == 1  # beside the linked study.toml
    assert states["plain"]["methods"] == [
        {"method": "fedavg", "phase": "interrupted", "rounds_done": 2, "accuracy": 60.0}
    ]
    assert states["begun"]["methods"][0]["rounds_done"] == 0
    assert states["sweep/2.0-0"]["methods"][0]["phase"] == "done"
    assert "is not the configuration of a run" in states["broken"]["error"]
    assert "world.json is a link" in states["with-a-link"]["error"]
    page = served.page("/")
    assert "kappa" in page and SECRET not in page and "linked-study" not in page


def test_run_2_stands_before_run_10_and_its_accuracy_before_its_state(tmp_path: Path) -> None:
    for name in ("10", "2", "b10", "b9", "b"):
        add_rounds(write_run(tmp_path / name), [40.0])
    catalog = Catalog(tmp_path)
    listing = catalog.listing()
    assert list(listing.runs) == ["2", "10", "b", "b9", "b10"]
    page = list_page(listing, catalog.states(listing.runs), "", "")
    heads = re.findall('<th scope="col">([^<]*)</th>', page)
    assert heads == ["compare", "run", "method", "accuracy, %", "rounds", "state", ""]
    assert re.search("<td>40.0</td><td>1 of 12</td><td [^>]*>interrupted</td>", page)


def test_an_unfinished_run_of_an_earlier_version_is_listed(tmp_path: Path) -> None:
    """Its records have other names, and its last line is cut."""
    run = by_hand.write_run(tmp_path / "early", {"fedavg": 50.0}, unfinished=("fedavg",))
    records = run / "fedavg" / "records.jsonl"
    text = records.read_text().replace("to_ground_bytes", "gs_uplink_bytes")
    records.write_text(text.replace("from_ground_bytes", "gs_downlink_bytes") + '{"round": 6, "acc')
    catalog = Catalog(tmp_path)
    [state] = catalog.states(catalog.listing().runs)
    assert state.error is None
    assert state.methods == (MethodState("fedavg", "interrupted", 6, 50.0),)


def test_a_comparison_is_the_page_of_the_report(
    served: Served, folder: Path, tmp_path: Path
) -> None:
    """The same numbers to draw, and the same tables."""
    names = ["sweep/0.0-0", "sweep/2.0-0"]
    page = served.page("/runs?" + "&".join(f"name={quote(name)}" for name in names))
    written = write_page(tmp_path / "page.html", compare(read_runs([folder / n for n in names])))
    report = written.read_text(encoding="utf-8")
    begin, end = report.index("<main>"), report.index("</body>")
    assert report[begin : report.index("<script>", begin, end)] in page
    assert served.page("/runs?name=sweep").count("<section") > 2  # a study by its name


@pytest.mark.parametrize(
    "target",
    [
        "/runs?name=../outside/other", "/runs?name=linked/other", "/runs?name=/etc",
        "/runs?name=linked-study/run", "/runs?name=plain/../plain", "/runs?name=plain%00",
        "/globe?name=..%2foutside%2fother", "/globe/positions?name=linked/other&part=0",
        "/globe/positions?name=plain&part=-1", "/globe/positions?name=plain&part=1e3",
        "/globe/positions?name=plain&part=999999999", "/globe/__class__?name=plain&part=0",
        "/events?name=../outside/other", "/assets/../catalog.py", "/assets/..%2fcatalog.py",
        "/assets/%2e%2e/%2e%2e/cli/serve.py", "/plain/config.toml", "//etc/passwd", "/assets/",
    ],
)  # fmt: skip
def test_nothing_else_can_be_asked_for(served: Served, target: str) -> None:
    status, _, content = served.ask(target)
    assert status == 404
    assert SECRET not in content.decode()


@pytest.mark.parametrize("target", ["/runs?name=with-a-link", "/globe?name=with-a-link"])
def test_a_link_inside_of_a_run_is_not_followed(served: Served, target: str) -> None:
    status, _, content = served.ask(target)
    assert status == 409
    assert "is a link, which is not followed" in content.decode()


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:1", 200), ("LOCALHOST", 200), ("127.0.0.1", 200), ("[::1]:8420", 200),
        ("192.168.0.7:8420", 200), ("evil.example", 421), ("evil.example:8420", 421),
        ("localhost.evil.example", 421), ("127.0.0.1.evil.example", 421), ("localhost:x", 421),
        ("", 421),
    ],
)  # fmt: skip
def test_it_answers_under_names_that_cannot_be_rebound(
    served: Served, host: str, status: int
) -> None:
    assert served.ask("/", Host=host)[0] == status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:1"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "no-cors", "Sec_Fetch_Dest": "script"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "iframe"}, 403),
        ({"Sec_Fetch_Site": "same-site", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}, 403),
        ({"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
        ({"Sec_Fetch_Site": "same-origin", "Sec_Fetch_Mode": "cors", "Sec_Fetch_Dest": "empty"}, 200),
        ({"Sec_Fetch_Site": "none", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}, 200),
    ],
)  # fmt: skip
def test_pages_of_other_origins_may_not_ask(served: Served, headers: dict, status: int) -> None:
    assert served.ask("/", **headers)[0] == status


def test_its_own_origin_may_ask(served: Served) -> None:
    assert served.ask("/", Origin=f"http://{served.host}")[0] == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed(served: Served, method: str) -> None:
    assert served.ask("/", method)[0] == 405


@pytest.mark.parametrize("target", ["/", "/nothing", "/assets/live.js", "/globe/about?name=plain"])
def test_every_answer_is_confined(served: Served, target: str) -> None:
    _, headers, _ = served.ask(target)
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy and "script-src 'self'" in policy
    assert "unsafe" not in policy and "http" not in policy
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["x-content-type-options"] == "nosniff"
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("target", ["/", f"/runs?name={quote(EVIL)}", f"/globe?name={quote(EVIL)}"])
def test_names_are_text(served: Served, target: str) -> None:
    _, _, content = served.ask(target)
    assert "onerror" in content.decode()
    assert "<img" not in content.decode()


def test_code_that_a_run_names_is_not_imported(tmp_path: Path) -> None:
    """Though it could be found: the server works in its folder."""
    (tmp_path / "planted.py").write_text("open('imported', 'w').close()\n")
    by_hand.write_run(
        tmp_path / "run", {"planted:Method": 40.0}, setting=by_hand.world(),
        model={"name": "planted:Model"},
    )  # fmt: skip
    with serving(tmp_path) as served:
        for target in ("/", "/runs?name=run", "/globe?name=run", "/globe/accuracies?name=run"):
            assert served.ask(target)[0] == 200, target
    assert not (tmp_path / "imported").exists()


def test_the_globe_has_the_positions_of_the_constellation(served: Served) -> None:
    """Twelve satellites at 61 moments, worked out again for one of them on its circular orbit."""
    about = json.loads(served.ask("/globe/about?name=plain")[2])
    content = served.ask("/globe/positions?name=plain&part=0")[2]
    r_km = np.frombuffer(content, dtype="<f4").reshape(61, 12, 3)
    radius_km = float(np.linalg.norm(r_km[0, 0]))
    assert np.linalg.norm(r_km, axis=-1) == pytest.approx(radius_km, abs=0.01)
    # Satellite 0 starts at its ascending node, at longitude 0, and climbs at its inclination.
    t_s = np.arange(61) * 60.0
    u_rad = t_s * np.sqrt(398600.4418 / radius_km**3)
    assert r_km[:, 0, 2] == pytest.approx(
        radius_km * np.sin(u_rad) * np.sin(np.radians(80.0)), abs=1.0
    )
    assert about["orbit_of_satellite"] == [0] * 4 + [1] * 4 + [2] * 4
    [station] = about["places"]
    up = np.array(station["r_km"]) / 6371.0
    assert np.degrees(np.arcsin(up[2])) == pytest.approx(67.9, abs=0.01)


def test_the_globe_has_the_contacts_of_the_plan(served: Served, folder: Path) -> None:
    world = json.loads((folder / "plain" / "world.json").read_text())["contacts"]
    content = served.ask("/globe/contacts?name=plain&part=0")[2]
    rows = np.frombuffer(content, dtype="<f4").reshape(-1, 5)
    columns = [world[key] for key in ("first", "second", "kind", "begin_s", "end_s")]
    expected = [row for row in zip(*columns, strict=True) if row[3] < 3600.0 and row[4] > 0.0]
    assert expected
    assert rows[:, :4] == pytest.approx(np.array(expected)[:, :4], abs=0.01)
    assert rows[:, 4] == pytest.approx(np.minimum(np.array(expected)[:, 4], 3601.0), abs=0.01)


def test_the_globe_has_the_messages_of_a_part(tmp_path: Path) -> None:
    """Of one method, from a quarter of an hour before the part, which may still be shown."""
    from fedorbit.serve.globe import read_globe

    run = write_run(tmp_path / "run", ("fedavg", "fedorbit"), rounds=24)
    add_rounds(run, [40.0, 50.0], hops=[(30, 0, 12), (2699, 4, 5), (2700, 12, 3)])
    add_rounds(run, [60.0], hops=[(3600, 1, 2), (7200, 2, 1)])
    globe = read_globe(run)
    assert globe.hops(0, "fedavg").tolist() == [[30, 0, 12], [2699, 4, 5], [2700, 12, 3]]
    assert globe.hops(1, "fedavg").tolist() == [[-900, 12, 3], [0, 1, 2]]
    assert globe.hops(1, "fedorbit").shape == (0, 3)
    with serving(tmp_path) as served:
        content = served.ask("/globe/hops?name=run&part=1&method=fedavg")[2]
        assert np.array_equal(np.frombuffer(content, dtype="<f4"), globe.hops(1, "fedavg").ravel())
        status, _, content = served.ask("/globe/hops?name=run&part=1&method=..%2ffedavg")
        assert status == 404 and b"does not run" in content


def test_satellites_that_are_away_have_no_position(tmp_path: Path) -> None:
    from fedorbit.serve.globe import read_globe

    events = [{"kind": "leave", "satellite": 5, "round": 4}]
    globe = read_globe(write_run(tmp_path / "run", events=events))
    away = np.isnan(globe.positions(0)[:, :, 0])
    assert away[:20].sum() == 0  # four rounds of five minutes
    assert away[20:, 5].all()
    assert away.sum() == 41
    rows = globe.contacts(0)
    late = rows[(rows[:, 0] == 5) | (rows[:, 1] == 5)]
    assert len(late) and (late[:, 4] <= 1200.0).all()


def test_contacts_that_were_not_written_are_searched_for(tmp_path: Path) -> None:
    from fedorbit.serve.globe import read_globe

    new = read_globe(write_run(tmp_path / "new"))
    early = write_run(tmp_path / "early")
    (early / "run.json").unlink()
    (early / "world.json").unlink()
    assert np.array_equal(read_globe(early).contacts(0), new.contacts(0))


def test_news_come_as_events(served: Served, folder: Path) -> None:
    run = write_run(folder / "live")
    with socket.create_connection(("127.0.0.1", int(served.host.split(":")[1]))) as connection:
        request = f"GET /events?name=live HTTP/1.1\r\nHost: {served.host}\r\n\r\n"
        connection.sendall(request.encode())
        stream = connection.makefile("r", encoding="utf-8")

        def next_state() -> str:
            return next(line for line in stream if line.startswith("data: "))

        before = next_state()  # the page's state was another one
        files = sorted(path.name for path in run.iterdir())
        add_rounds(run, [40.0])
        assert next_state() != before
        assert sorted(path.name for path in run.iterdir() if path.is_file()) == files


def test_a_run_that_is_removed_ends_its_stream(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run")
    with serving(tmp_path) as served:
        address = ("127.0.0.1", int(served.host.split(":")[1]))
        with socket.create_connection(address) as connection:
            request = f"GET /events?name=run HTTP/1.1\r\nHost: {served.host}\r\n\r\n"
            connection.sendall(request.encode())
            stream = connection.makefile("r", encoding="utf-8")
            next(line for line in stream if line.startswith("data: "))
            shutil.rmtree(run)
            assert any(line == "0\n" for line in stream)  # the last chunk
        assert served.ask("/events?name=run")[0] == 404
        assert served.stop() == (0, "")


def test_pages_that_were_closed_make_room_for_others(served: Served) -> None:
    def follow() -> tuple[socket.socket, bytes]:
        connection = socket.create_connection(("127.0.0.1", int(served.host.split(":")[1])))
        connection.sendall(f"GET /events HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
        return connection, connection.recv(12)

    followers = [follow() for _ in range(MOST_FOLLOWERS + 1)]
    assert followers[0][1] == b"HTTP/1.1 200"
    assert followers[-1][1] == b"HTTP/1.1 503"
    for connection, _ in followers:
        connection.close()

    def is_answered() -> bool:
        connection, answer = follow()
        connection.close()
        return answer == b"HTTP/1.1 200"

    wait_until(is_answered)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_while_a_page_follows(folder: Path, number: int) -> None:
    with serving(folder) as served:
        port = int(served.host.split(":")[1])
        with socket.create_connection(("127.0.0.1", port)) as connection:
            connection.sendall(f"GET /events HTTP/1.1\r\nHost: {served.host}\r\n\r\n".encode())
            assert connection.recv(4) == b"HTTP"
            assert served.stop(number) == (0, "")


def test_a_port_in_use_is_one_sentence(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert execute(["serve", str(folder), "--port", str(port)]) == 2
    said = capsys.readouterr().err
    assert f"cannot listen on 127.0.0.1, port {port}" in said and "--port" in said


def test_a_missing_folder_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert execute(["serve", str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().err
