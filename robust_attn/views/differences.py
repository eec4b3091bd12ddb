"""Differences between paired numbers, each with a bootstrap interval over the samples."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median

from robust_attn.records.pairing import Pair
from robust_attn.records.quantities import compared_numbers

SEED = 0
RESAMPLES = 9999
CONFIDENCE = 0.95
ROUNDING = 1e-12
"""Relative differences up to this one are those of arithmetic."""
Interval = tuple[float, float]


@dataclass(frozen=True)
class Paired:
    """A quantity of a pair: its number in either run."""

    place: str
    number: int
    first: float
    second: float

    @property
    def difference(self) -> float:
        """By how much the second run has more; what is within rounding is none."""
        alike = math.isclose(self.first, self.second, rel_tol=ROUNDING)
        return 0.0 if alike else self.second - self.first


@dataclass(frozen=True)
class Difference:
    """A quantity in two runs; `alone` counts the pairs in which only one run knows it."""

    name: str
    pairs: tuple[Paired, ...]
    alone: int

    @property
    def mean(self) -> float:
        """The mean difference, every sample counted once however many records it has."""
        return fmean(self.by_sample)

    @property
    def by_sample(self) -> tuple[float, ...]:
        """The mean difference of each sample: records of one sample are not independent of one another."""
        found: defaultdict[int, list[float]] = defaultdict(list)
        for pair in self.pairs:
            found[pair.number].append(pair.difference)
        return tuple(map(fmean, found.values()))

    @property
    def larger(self) -> int:
        """In how many pairs the second run has more."""
        return sum(pair.difference > 0 for pair in self.pairs)

    @property
    def smaller(self) -> int:
        """In how many it has less."""
        return sum(pair.difference < 0 for pair in self.pairs)

    @property
    def ratio(self) -> float | None:
        """The median of second over first; None where a number is not positive."""
        positive = all(pair.first > 0 and pair.second > 0 for pair in self.pairs)
        return median(pair.second / pair.first for pair in self.pairs) if positive else None


def differences(pairs: Sequence[Pair]) -> tuple[Difference, ...]:
    """Every quantity that both records of some pair know, in the order in which they first appear."""
    numbers = [(pair, compared_numbers(pair.first), compared_numbers(pair.second)) for pair in pairs]
    names = dict.fromkeys(name for _, first, second in numbers for name in first if name in second)
    return tuple(
        Difference(
            name,
            tuple(
                Paired(pair.place, pair.number, first[name], second[name])
                for pair, first, second in numbers
                if name in first and name in second
            ),
            sum((name in first) != (name in second) for _, first, second in numbers),
        )
        for name in names
    )


def interval(values: Sequence[float]) -> Interval | None:
    """SciPy's bootstrap interval (BCa) of the mean; None where one value, or none, cannot vary.

    Values that are all the same have themselves as interval.
    """
    if len(values) < 2:
        return None
    if min(values) == max(values):
        return values[0], values[0]
    import numpy as np
    from scipy.stats import bootstrap

    drawn = np.random.default_rng(SEED)
    scale = max(map(abs, values))  # far from the smallest floats, where squares vanish
    made = bootstrap(
        (np.asarray(values) / scale,), np.mean, confidence_level=CONFIDENCE, n_resamples=RESAMPLES, random_state=drawn
    ).confidence_interval
    low, high = float(made.low) * scale, float(made.high) * scale
    return (low, high) if math.isfinite(low) and math.isfinite(high) else None
