"""Sinks: the satellite that uploads for all of its orbit, predicted from windows and routes.

    (1)  t_j: when satellite j can send its model, after w has arrived and training has ended
    (2)  ready_k = max_j (arrival at k of what j sends at t_j)
    (3)  end_k = the end of an upload of k: of a model that leaves as early as possible after
         ready_k, in a window with a server in which its seconds are left
    (4)  sink: the k of the smallest end_k; of equal ones the longer window, then the lower k

"longest" takes the longest window that begins within a period of the orbit being ready, "first" the
satellite that received w, which is also the sink without any window left. t_j is a begin of a slot:
results are collected then. Without a speed on board training takes one. Light takes no time.
Windows and routes are those of the plan as flown: later losses are known in advance.
"""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from fedorbit.fleet import Now

SinkRule = Literal["earliest", "longest", "first"]


class Upload(NamedTuple):
    """A window in which a satellite could upload; the earlier is the smaller."""

    end_s: float
    """Arrival at the server of a model that leaves as early as possible."""
    shortness_s: float
    """Minus the length of the window, from that departure on."""
    satellite: int
    begin_s: float


def choose_sink(
    now: Now,
    first: int,
    mates: Sequence[int],
    trainers: Sequence[int],
    rule: SinkRule,
    period_s: float,
) -> int:
    """Return the satellite that is to upload for an orbit whose first satellite has w now."""
    if rule == "first":
        return first
    ready_s = ready(now, first, mates, trainers)
    found = [
        upload
        for k in mates
        for server in now.servers
        for upload in uploads(now, k, server, ready_s[k], period_s)
    ]
    if not found:
        return first
    soonest = min(found)
    if rule == "earliest":
        return soonest.satellite
    by_s = max(min(ready_s.values()) + period_s, soonest.begin_s)
    within = (upload for upload in found if upload.begin_s <= by_s)
    return min(within, key=lambda u: (u.shortness_s, u.end_s, u.satellite)).satellite


def ready(now: Now, first: int, mates: Sequence[int], trainers: Sequence[int]) -> dict[int, float]:
    """Predict ready_k: when each satellite could have all models of its orbit, in seconds."""
    round_s, sent = now.fleet.round_s, now.ways(first)
    ready_s = np.full(len(mates), now.t * round_s)
    for j in trainers:
        if not np.isfinite(sent.arrival_s[j]):
            return dict.fromkeys(mates, np.inf)
        ended_s = sent.arrival_s[j] + now.training_s(j)
        slot = max(int(sent.arrival_s[j] // round_s) + 1, int(np.ceil(ended_s / round_s)))  # t_j
        ready_s = np.maximum(ready_s, now.ways(j, slot * round_s).arrival_s[list(mates)])
    return dict(zip(mates, ready_s.tolist(), strict=True))


def uploads(
    now: Now, satellite: int, server: int, after_s: float = 0.0, period_s: float = 0.0
) -> Iterator[Upload]:
    """Yield the next window in which a satellite can upload a model, and those of a period."""
    needs_s, until_s = now.transfer_s(satellite, server), after_s + period_s
    if not np.isfinite(after_s):
        return
    while (window := now.window(satellite, server, needs_s, after_s)) is not None:
        length_s = window.end_s - window.begin_s
        yield Upload(window.begin_s + needs_s, -length_s, satellite, window.begin_s)
        if (after_s := window.end_s) > until_s:
            return
