"""Splits of samples into training and test, and their partitions over satellites.

Each scheme is a small class with its parameters and one method, `deal`. Training samples go to
satellites, test samples to orbits, by the same drawn shares; every sample goes to exactly one, or
is listed as unseen.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from fedorbit.data.stream import TEST, TRAIN
from fedorbit.errors import PartitionError
from fedorbit.randomness import generator

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Split:
    """Sample indices for training and for test."""

    train: Ints
    test: Ints


@dataclass(frozen=True)
class Partition:
    """Sample indices per satellite (training) and per orbit (test).

    Samples that no satellite ever sees are in neither; they are kept here so that they can be
    reported. Only the ground-track partition has any.
    """

    orbit_of_satellite: Ints
    train: tuple[Ints, ...]
    test: tuple[Ints, ...]
    unseen_train: Ints
    unseen_test: Ints

    def train_counts(self, labels: Ints, classes: int) -> Ints:
        """Training samples `[satellite, class]`: the class strengths s_kc of FedOrbit."""
        return _class_counts(self.train, labels, classes)

    def orbit_counts(self, labels: Ints, classes: int) -> Ints:
        """Training samples `[orbit, class]`."""
        counts = np.zeros((len(self.test), classes), dtype=np.int64)
        np.add.at(counts, self.orbit_of_satellite, self.train_counts(labels, classes))
        return counts

    def test_counts(self, labels: Ints, classes: int) -> Ints:
        """Test samples `[orbit, class]`."""
        return _class_counts(self.test, labels, classes)

    def satellite_test(self, labels: Ints, classes: int, seed: int) -> tuple[Ints, ...]:
        """Deal each orbit's test samples to its satellites, for methods that serve satellites.

        Of every class in the proportion of their training samples of it; where they have none, of
        all their training samples, or else evenly.
        """
        counts = self.train_counts(labels, classes)
        dealt: list[list[Ints]] = [[] for _ in self.orbit_of_satellite]
        for orbit, samples in enumerate(self.test):
            satellites = np.flatnonzero(self.orbit_of_satellite == orbit)
            for c in range(classes):
                members = samples[labels[samples] == c]
                draw = generator(seed, "deal test samples to satellites", orbit, c)
                owned = counts[satellites, c], counts[satellites].sum(axis=1)
                evenly = np.ones(len(satellites))
                weights = next((weights for weights in owned if weights.any()), evenly)
                parts = _cut(draw.permutation(members), weights / weights.sum())
                for satellite, part in zip(satellites, parts, strict=True):
                    dealt[satellite].append(part)
        return tuple(_sorted(parts) for parts in dealt)


class PartitionScheme(Protocol):
    """A rule that deals samples to satellites."""

    def deal(
        self, labels: Ints, classes: int, split: Split, orbit_of_satellite: Ints, seed: int
    ) -> Partition:
        """Deal every sample of the split."""


def stratified_split(labels: Ints, test_share: float, seed: int) -> Split:
    """Put the same share of every class, up to rounding, into the test split."""
    train, test = [], []
    for label in np.unique(labels):
        members = np.flatnonzero(labels == label)
        members = generator(seed, "split", int(label)).permutation(members)
        cut = int(np.rint(test_share * len(members)))
        test.append(members[:cut])
        train.append(members[cut:])
    return Split(_sorted(train), _sorted(test))


def official_split(codes: NDArray[np.uint8]) -> Split:
    """Take the split a dataset comes with; its validation part stays out of both."""
    return Split(np.flatnonzero(codes == TRAIN), np.flatnonzero(codes == TEST))


def thinned_split(split: Split, labels: Ints, share: float, seed: int) -> Split:
    """Keep a share of every class in both parts, up to rounding, and at least one sample."""

    def keep(samples: Ints, purpose: str) -> Ints:
        kept = []
        for label in np.unique(labels[samples]):
            members = _shuffled_members(labels, samples, int(label), seed, purpose)
            kept.append(members[: max(1, int(np.rint(share * len(members))))])
        return _sorted(kept)

    return Split(keep(split.train, "thin training"), keep(split.test, "thin test"))


@dataclass(frozen=True)
class Pathological:
    """Disjoint classes: shuffled and dealt to the orbits, set sizes differing by at most one."""

    satellite_alpha: float = 0.5

    def deal(
        self, labels: Ints, classes: int, split: Split, orbit_of_satellite: Ints, seed: int
    ) -> Partition:
        """Deal every sample of the split."""
        orbits = int(orbit_of_satellite[-1]) + 1
        shuffled = generator(seed, "pathological classes").permutation(classes)
        shares = np.zeros((classes, orbits))
        for orbit, owned in enumerate(np.array_split(shuffled, orbits)):
            shares[owned, orbit] = 1.0
        return _deal_by_shares(
            shares, self.satellite_alpha, labels, split, orbit_of_satellite, seed
        )


@dataclass(frozen=True)
class Dirichlet:
    """Overlapping classes: for every class the orbits' shares are one Dirichlet(alpha) draw."""

    alpha: float = 0.5
    satellite_alpha: float = 0.5

    def deal(
        self, labels: Ints, classes: int, split: Split, orbit_of_satellite: Ints, seed: int
    ) -> Partition:
        """Deal every sample of the split."""
        orbits = int(orbit_of_satellite[-1]) + 1
        shares = np.array(
            [
                _dirichlet(generator(seed, "dirichlet orbits", c), self.alpha, orbits)
                for c in range(classes)
            ]
        )
        return _deal_by_shares(
            shares, self.satellite_alpha, labels, split, orbit_of_satellite, seed
        )


@dataclass(frozen=True, eq=False)
class GroundTrack:
    """Real overflights: a sample goes to one of the satellites that pass over its place.

    `passes[sample, satellite]` counts the passes within the horizon; a satellite gets the sample
    with a probability proportional to its count. Samples that no satellite passes over are unseen.
    """

    passes: NDArray[np.int32]

    def deal(
        self, labels: Ints, classes: int, split: Split, orbit_of_satellite: Ints, seed: int
    ) -> Partition:
        """Deal every sample of the split."""
        owner = self._draw_owners(seed)
        orbit = np.where(owner >= 0, orbit_of_satellite[owner], -1)
        if not (owner[split.train] >= 0).any():
            raise PartitionError(
                "no satellite passes over any training sample; widen the swath "
                "(partition.swath_half_width_km) or lengthen the horizon (schedule.rounds)"
            )
        return Partition(
            orbit_of_satellite=orbit_of_satellite,
            train=tuple(
                split.train[owner[split.train] == k] for k in range(len(orbit_of_satellite))
            ),
            test=tuple(
                split.test[orbit[split.test] == o] for o in range(int(orbit_of_satellite[-1]) + 1)
            ),
            unseen_train=split.train[owner[split.train] < 0],
            unseen_test=split.test[owner[split.test] < 0],
        )

    def _draw_owners(self, seed: int) -> Ints:
        draws = generator(seed, "ground track").random(len(self.passes))
        owner = np.full(len(self.passes), -1, dtype=np.int64)
        for begin in range(0, len(owner), 4096):
            rows = slice(begin, begin + 4096)
            cumulated = np.cumsum(self.passes[rows], axis=1, dtype=np.int64)
            total = cumulated[:, -1]
            chosen = (cumulated > (draws[rows] * total)[:, None]).argmax(axis=1)
            owner[rows] = np.where(total > 0, chosen, -1)
        return owner


def _deal_by_shares(
    shares: Floats,
    satellite_alpha: float,
    labels: Ints,
    split: Split,
    orbit_of_satellite: Ints,
    seed: int,
) -> Partition:
    """Deal by orbit shares `[class, orbit]`, then within each orbit by Dirichlet draws."""
    classes, orbits = shares.shape
    train: list[list[Ints]] = [[] for _ in orbit_of_satellite]
    test: list[list[Ints]] = [[] for _ in range(orbits)]
    for c in range(classes):
        members = _shuffled_members(labels, split.train, c, seed, "deal training samples")
        for orbit, dealt in enumerate(_cut(members, shares[c])):
            satellites = np.flatnonzero(orbit_of_satellite == orbit)
            draw = generator(seed, "dirichlet satellites", orbit, c)
            satellite_shares = _dirichlet(draw, satellite_alpha, len(satellites))
            for satellite, part in zip(satellites, _cut(dealt, satellite_shares), strict=True):
                train[satellite].append(part)
        members = _shuffled_members(labels, split.test, c, seed, "deal test samples")
        for orbit, dealt in enumerate(_cut(members, shares[c])):
            test[orbit].append(dealt)
    nothing = np.empty(0, dtype=np.int64)
    return Partition(
        orbit_of_satellite=orbit_of_satellite,
        train=tuple(_sorted(parts) for parts in train),
        test=tuple(_sorted(parts) for parts in test),
        unseen_train=nothing,
        unseen_test=nothing,
    )


def _dirichlet(rng: np.random.Generator, alpha: float, parts: int) -> Floats:
    """Draw shares that sum to 1, for any alpha above 0."""
    shares = rng.dirichlet(np.full(parts, alpha))
    if not np.isfinite(shares).all() or shares.sum() <= 0.0:
        # The gammas underflow for tiny alpha; in that limit one part gets everything.
        shares = np.zeros(parts)
        shares[rng.integers(parts)] = 1.0
    return np.asarray(shares / shares.sum())


def _cut(members: Ints, shares: Floats) -> list[Ints]:
    """Cut consecutive pieces whose sizes differ from their share by less than one sample."""
    cuts = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.int64)
    return np.split(members, cuts)


def _shuffled_members(labels: Ints, indices: Ints, label: int, seed: int, purpose: str) -> Ints:
    members = indices[labels[indices] == label]
    return np.asarray(generator(seed, purpose, label).permutation(members))


def _class_counts(parts: tuple[Ints, ...], labels: Ints, classes: int) -> Ints:
    return np.array([np.bincount(labels[part], minlength=classes) for part in parts])


def _sorted(parts: list[Ints]) -> Ints:
    return np.sort(np.concatenate(parts)) if parts else np.empty(0, dtype=np.int64)
