"""Downloads from a real server on this machine: whole, wrong, cut, and not at all."""

import errno
import hashlib
import os
import resource
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from fedorbit.data.cache import downloads_root
from fedorbit.data.fetch import fetch
from fedorbit.data.sources import SOURCES, RemoteFile
from fedorbit.errors import DataError, FetchError
from tests.data.source_fixtures import Recorder

CONTENT = bytes(range(256)) * 9000  # two pieces and a part
CHECKSUM = f"sha256:{hashlib.sha256(CONTENT).hexdigest()}"


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.requests.append(self.path)
        if self.path == "/gone":
            self.send_error(404)
            return
        self.send_response(200)
        if self.path != "/unknown-length":
            self.send_header("Content-Length", str(len(CONTENT)))
        self.end_headers()
        cut = self.server.cuts.pop() if self.server.cuts else len(CONTENT)
        self.wfile.write(CONTENT[:cut])

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.requests, server.cuts = [], []
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def offer(monkeypatch):
    """Make `fetch("eurosat")` ask for this address."""

    def offer(url, *, checksum=CHECKSUM, size_bytes=None):
        file = RemoteFile("file.zip", url, checksum, size_bytes)
        source = SOURCES["eurosat"]
        source = replace(source, info=replace(source.info, files=(file,)))
        monkeypatch.setitem(SOURCES, "eurosat", source)
        return file

    return offer


def downloads():
    return sorted(path.name for path in downloads_root().iterdir())


@pytest.mark.parametrize("algorithm", ["md5", "sha256"])
def test_file_is_downloaded_once(algorithm, server, offer):
    offer(f"{server.url}/x", checksum=f"{algorithm}:{hashlib.new(algorithm, CONTENT).hexdigest()}")
    progress = Recorder()
    assert fetch("eurosat", progress) == [downloads_root() / "file.zip"]
    assert (downloads_root() / "file.zip").read_bytes() == CONTENT and downloads() == ["file.zip"]
    start, *counts, end = progress.events
    assert start == ("downloading file.zip", len(CONTENT), "bytes") and end == "finish"
    assert len(counts) == 3 and sum(counts) == len(CONTENT)
    silent = Recorder()
    assert fetch("eurosat", silent) == [downloads_root() / "file.zip"]
    assert server.requests == ["/x"] and silent.events == []


def test_server_that_does_not_tell_the_length(server, offer):
    offer(f"{server.url}/unknown-length")
    progress = Recorder()
    fetch("eurosat", progress)
    assert progress.events[0] == ("downloading file.zip", 0, "bytes")
    assert progress.events[-1] == "finish" and len(progress.events) > 2


def test_damaged_file_is_downloaded_again(server, offer):
    offer(f"{server.url}/x")
    downloads_root().mkdir(parents=True)
    (downloads_root() / "file.zip").write_bytes(CONTENT[:-1])
    fetch("eurosat")
    assert (downloads_root() / "file.zip").read_bytes() == CONTENT


def test_wrong_checksum_is_not_kept(server, offer):
    file = offer(f"{server.url}/x", checksum="sha256:" + "0" * 64)
    with pytest.raises(
        FetchError, match=r"does not have the checksum sha256:000.*was not kept"
    ) as caught:
        fetch("eurosat")
    assert file.url in str(caught.value) and downloads() == []


@pytest.mark.parametrize("path", ["x", "unknown-length"])
def test_closed_connection_leaves_nothing_and_a_second_try_succeeds(path, server, offer):
    offer(f"{server.url}/{path}")
    server.cuts.append(1_500_000)
    progress = Recorder()
    with pytest.raises(FetchError, match=r"file\.zip"):
        fetch("eurosat", progress)
    assert downloads() == [] and progress.events[-1] == "finish"
    fetch("eurosat")
    assert (downloads_root() / "file.zip").read_bytes() == CONTENT


def test_unreachable_server_says_what_to_do_by_hand(offer):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/x"  # bound but not listening
        file = offer(url)
        with pytest.raises(FetchError) as caught:
            fetch("eurosat")
    assert str(caught.value) == (
        f"file.zip could not be downloaded from {url} ([Errno {errno.ECONNREFUSED}] {os.strerror(errno.ECONNREFUSED)}). "
        f"Download it by hand, check that its checksum is {file.checksum}, put it at "
        f"{downloads_root() / 'file.zip'} and run `fedorbit data prepare eurosat`."
    )


def test_missing_page(server, offer):
    offer(f"{server.url}/gone")
    with pytest.raises(FetchError, match=r"could not be downloaded.*404.*Download it by hand"):
        fetch("eurosat")


def test_space_is_checked_first(server, offer):
    offer(f"{server.url}/x", size_bytes=10**18)
    with pytest.raises(FetchError, match=r"needs about 1,000,000,000,000,000,000 bytes but only"):
        fetch("eurosat")
    assert server.requests == []


def test_folder_that_cannot_be_written(server, offer, own_cache):
    offer(f"{server.url}/x")
    own_cache.write_text("a file where the cache should be")
    with pytest.raises(FetchError, match=r"file\.zip cannot be written \(Not a directory\)"):
        fetch("eurosat")


def test_sources_without_files(offer):
    with pytest.raises(
        FetchError, match="no files to download; run `fedorbit data prepare synthetic`"
    ):
        fetch("synthetic")
    with pytest.raises(FetchError, match="`fedorbit data prepare folder --source PATH`"):
        fetch("folder")
    with pytest.raises(DataError, match="did you mean 'resisc45'"):
        fetch("resisc")


def test_pins_are_complete():
    files = [file for source in SOURCES.values() for file in source.info.files]
    assert [file.name for file in files] == [
        "EuroSAT_RGB.zip",
        "EuroSAT_MS.zip",
        "NWPU-RESISC45.zip",
        "training.h5",
        "validation.h5",
        "testing.h5",
        "cifar-10-binary.tar.gz",
        "train-images-idx3-ubyte.gz",
        "train-labels-idx1-ubyte.gz",
        "t10k-images-idx3-ubyte.gz",
        "t10k-labels-idx1-ubyte.gz",
    ]
    for file in files:
        algorithm, digest = file.checksum.split(":")
        assert len(digest) == 2 * hashlib.new(algorithm).digest_size
        assert file.url.startswith("https://") and file.url.endswith(file.name)


def test_full_disk_while_downloading(server, offer):
    """A quota cannot be foreseen: the write itself fails, as under this limit of file sizes."""
    offer(f"{server.url}/x")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, hard))  # Python ignores SIGXFSZ
    try:
        with pytest.raises(FetchError, match=r"file\.zip cannot be written \(File too large\)"):
            fetch("eurosat")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert downloads() == []
