"""Joint cumulants as sums over partitions: which products of centred moments they are made of, and how often.

kappa(x, y, .., y) = sum over partitions of (-1)^{b-1} (b-1)! times the product over the b blocks of the means of their
products. Blocks of one vanish, because everything is centred (docs/proofs/local.md#cumulants).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache


@dataclass(frozen=True)
class Parting:
    """A way to part x (and z) and some y in blocks, and how often it counts: (b-1)! times the partitions like it.

    `own` y stand with x, and z with them where `beside` is zero; else `beside` y stand with z alone. `others` are the
    sizes of blocks of y only.
    """

    weight: int
    own: int
    others: tuple[int, ...]
    beside: int = 0


@cache
def partings(count: int) -> tuple[Parting, ...]:
    """Of kappa(x, y, .., y) with `count` y, the single block last."""
    return tuple(
        Parting(math.factorial(len(others)) * alike(count, (own,), others), own, others)
        for own in range(1, count + 1)
        for others in _blocks(count - own)
    )


@cache
def joint_partings(count: int) -> tuple[Parting, ...]:
    """Of kappa(x, z, y, .., y) with `count` y."""
    together = [
        Parting(math.factorial(len(others)) * alike(count, (own,), others), own, others)
        for own in range(count + 1)
        for others in _blocks(count - own)
    ]
    apart = [
        Parting(math.factorial(len(others) + 1) * alike(count, (own,), (beside,), others), own, others, beside)
        for own in range(1, count)
        for beside in range(1, count - own + 1)
        for others in _blocks(count - own - beside)
    ]
    return (*together, *apart)


@cache
def all_partings(count: int) -> int:
    """The sum of (b-1)! over the partitions of so many in blocks of two and more."""
    return sum(math.factorial(len(blocks) - 1) * alike(count, blocks) for blocks in _blocks(count))


def alike(count: int, *groups: tuple[int, ...]) -> int:
    """In how many ways `count` things fall into blocks of these sizes; those of one group are not told apart."""
    ways = math.factorial(count)
    for group in groups:
        for size in group:
            ways //= math.factorial(size)
        for times in Counter(group).values():
            ways //= math.factorial(times)
    return ways


def _blocks(total: int, largest: int | None = None) -> Iterator[tuple[int, ...]]:
    """The ways to write a number as a sum of numbers from two on, in descending order."""
    if total == 0:
        yield ()
        return
    for first in range(min(total, largest or total), 1, -1):
        for rest in _blocks(total - first, first):
            yield (first, *rest)
