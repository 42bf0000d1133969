"""The command itself in a process of its own, and plain requests to it."""

import http.client
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from tests.patience import PATIENCE_S


class Served:
    """A server that listens, and what it has printed."""

    def __init__(self, folder: Path, *options: str) -> None:
        command = [sys.executable, "-m", "fedorbit", "serve", str(folder), "--port", "0", "--json"]
        self.process = subprocess.Popen(
            [*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"}, cwd=folder,
        )  # fmt: skip
        self.document = self._document()
        self.address = self.document["address"]
        self.host = urlsplit(self.address).netloc

    def _document(self) -> dict:
        text = ""
        for line in self.process.stdout:
            text += line
            if line == "}\n":
                return json.loads(text)
        raise AssertionError(f"it ended: {self.process.stderr.read()}")

    def ask(
        self, target: str, method: str = "GET", **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask with exactly this target and, but for what is given, what every client sends."""
        connection = http.client.HTTPConnection(self.host, timeout=PATIENCE_S)
        connection.putrequest(method, target, skip_host=True)
        for name, value in {"Host": self.host, **headers}.items():
            connection.putheader(name.replace("_", "-"), value)
        connection.endheaders()
        answer = connection.getresponse()
        found = answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read()
        connection.close()
        return found

    def page(self, target: str) -> str:
        status, _, content = self.ask(target)
        assert status == 200, content.decode()
        return content.decode()

    def stop(self, number: int = signal.SIGINT) -> tuple[int, str]:
        """End it by a signal; return its exit code and what it complained of."""
        self.process.send_signal(number)
        _, complaints = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, complaints


@contextmanager
def serving(folder: Path, *options: str) -> Iterator[Served]:
    served = Served(folder, *options)
    try:
        yield served
    finally:
        if served.process.poll() is None:
            served.process.kill()
            served.process.communicate()
