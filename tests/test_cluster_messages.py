"""Ray's threads write into the log, all others to standard output."""

import threading
from pathlib import Path

import pytest

from fedorbit.cluster_messages import ray_messages_to


def test_only_rays_messages_are_kept_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with ray_messages_to(tmp_path / "log.txt"):
        for name in ("ray_listen_error_messages", "somebody"):
            thread = threading.Thread(target=print, args=(f"from {name}",), name=name)
            thread.start()
            thread.join()
        print("a result")
    print("another")
    assert capsys.readouterr().out == "from somebody\na result\nanother\n"
    assert (tmp_path / "log.txt").read_text() == "from ray_listen_error_messages\n"
