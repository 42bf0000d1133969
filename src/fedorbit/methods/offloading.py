"""Offloading of samples to faster neighbours before training: the greedy plan of FedLEO.

    symbol   here
    D_k      samples of satellite k
    s_k, G   samples that it trains, and that a link carries, per second
    M, tau   rounds, and epochs of each
    t_w      seconds of a round for all else

One decision, a gives I of its samples to b, costs

    (1)  J(I) = I/G + M tau max((D_a - I)/s_a, (D_b + I)/s_b) + kappa D_b/(D_b + I)

The last term bounds how far the two models diverge. J is convex; its minimum is looked for among
all I at once. The whole takes

    (2)  T = T_offload + M max_k tau D_k/s_k + M t_w

where transfers that share satellites form a flow and follow each other, flows run side by side, and
T_offload is the longest flow. The neighbour of a with the largest

    (3)  U = (t_a - t_b) + pi sum_c |p_bc - p_ac|,  t_k = tau D_k/s_k,  p_kc the class shares

gets the samples: a fast one whose classes are different.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedorbit.fleet import Move
from fedorbit.fleet.roster import Ints
from fedorbit.hardware import Floats


@dataclass(frozen=True)
class Offloading:
    """Inputs of a decision."""

    epochs: int
    speeds: Floats
    """s_k."""
    link: float
    """G."""
    rounds: int = 100
    waiting_s: float = 0.3
    """t_w."""
    kappa: float = 0.0
    pi: float = 0.0
    literal: bool = False
    """U with t_b - t_a, as it is printed."""

    def plan(self, counts: Ints, neighbours: Sequence[Sequence[int]]) -> list[Move]:
        """Return the moves for samples `[satellite, class]`; the slowest satellite gives first."""
        counts, waiting = counts.copy(), set(range(len(counts)))
        moves: list[Move] = []
        flow, flow_s, offload_s = list(range(len(counts))), np.zeros(len(counts)), 0.0
        total_s = self.total_s(counts.sum(axis=1), offload_s)
        while waiting:
            times_s = self.round_s(counts.sum(axis=1))
            a = min(waiting, key=lambda k: (-times_s[k], k))
            waiting.remove(a)
            if not neighbours[a]:
                continue
            gains = {k: self.gain(a, k, counts, times_s) for k in neighbours[a]}
            b = min(gains, key=lambda k: (-gains[k], k))
            amount = self.amount(a, b, counts.sum(axis=1))
            given = of_each_class(counts[a], amount)
            after = counts.copy()
            after[a] -= given
            after[b] += given
            joined = {flow[a], flow[b]} if amount else set()
            joined_s = float(sum(flow_s[number] for number in joined)) + amount / self.link
            later_s = self.total_s(after.sum(axis=1), max(offload_s, joined_s))
            if later_s > total_s:
                break
            counts, total_s, offload_s = after, later_s, max(offload_s, joined_s)
            if amount:
                moves.append(Move(a, b, given))
                flow = [flow[a] if number in joined else number for number in flow]
                flow_s[flow[a]] = joined_s
        return moves

    def amount(self, a: int, b: int, samples: Ints) -> int:
        """Return the I of smallest J (1), the first of several."""
        amounts, (held, other) = np.arange(samples[a] + 1), samples[[a, b]].tolist()
        train_s = np.maximum((held - amounts) / self.speeds[a], (other + amounts) / self.speeds[b])
        apart = other / np.maximum(other + amounts, 1)
        cost = amounts / self.link + self.rounds * self.epochs * train_s + self.kappa * apart
        return int(cost.argmin())

    def gain(self, a: int, b: int, counts: Ints, times_s: Floats) -> float:
        """Return U (3)."""
        shares = [counts[k] / max(int(counts[k].sum()), 1) for k in (a, b)]
        faster_s = float(times_s[a] - times_s[b])
        different = float(np.abs(shares[1] - shares[0]).sum())
        return (-faster_s if self.literal else faster_s) + self.pi * different

    def round_s(self, samples: Ints) -> Floats:
        """Seconds that each satellite trains in a round."""
        return np.asarray(self.epochs * samples / self.speeds)

    def total_s(self, samples: Ints, offload_s: float) -> float:
        """Return T (2)."""
        slowest_s = float(self.round_s(samples).max())
        return offload_s + self.rounds * (slowest_s + self.waiting_s)


def of_each_class(counts: Ints, amount: int) -> Ints:
    """Return how many samples of each class are given, so that class shares stay; sum: amount."""
    given, rest = np.divmod(counts * amount, max(int(counts.sum()), 1))
    missing = amount - int(given.sum())
    given[np.argsort(-rest, kind="stable")[:missing]] += 1
    return np.asarray(given)
