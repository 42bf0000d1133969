"""Joining a cluster: what is refused, in which words."""

import sys

import pytest

from fedorbit.cluster import ray_cluster
from fedorbit.errors import ClusterError


def test_without_ray_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with (
        pytest.raises(ClusterError, match=r"not installed .*pip install 'ray>="),
        ray_cluster(),
    ):
        pass


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("127.0.0.1:1", "no Ray cluster answers at '127.0.0.1:1'; start one with `ray start"),
        ("127.0.0.1", "no Ray cluster answers at '127.0.0.1'"),
        ("127.0.0.1:port", "no Ray cluster answers at"),
        ("127.0.0.1:99999", "no Ray cluster answers at"),
        ("ray://127.0.0.1:10001", "must be HOST:PORT, got 'ray://127.0.0.1:10001'"),
    ],
)
def test_a_wrong_address_is_refused_at_once(
    monkeypatch: pytest.MonkeyPatch, address: str, words: str
) -> None:
    ray = pytest.importorskip("ray", reason="Ray is not installed; see the extra ray")
    monkeypatch.setattr(ray, "is_initialized", lambda: False)
    with pytest.raises(ClusterError, match=words), ray_cluster(address):
        pass
    monkeypatch.setenv("RAY_ADDRESS", address)
    with pytest.raises(ClusterError, match=words), ray_cluster():
        pass
