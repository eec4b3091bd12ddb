"""What the first look at slivers sees and whether it leaves one out that wins (`attacks/sliver.py: LOOKS`).

    python -m benchmarks.first_look                     # MiniLM and SmolLM2, one sample of 32 tokens, two contexts
    python -m benchmarks.first_look --edges             # contexts doubling from 128 until slivers are clearly ahead
    python -m benchmarks.first_look --quick             # MiniLM layer 0 at radius 0.1 alone

`mass_split` searches for slivers to the end whatever the look says, so `copies` and `sliver` are the changes over the
radius that both ways end with. `look 1`, `look 2`... are the parts of the copies' change that slivers had at each look,
`of the limit` the smallest of these over its limit: below 1 the sliver is left out. `lost` is how far the attack stays
below the sliver for that reason. Exit status 1 if that is more than 0.1 % anywhere.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from unittest.mock import patch

import torch

from benchmarks.measuring import print_table
from benchmarks.slivers import cases
from robust_attn.attacks import sliver
from robust_attn.attacks.mass_split import MassSplit
from robust_attn.attacks.output_change import OutputChange
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein

LAYERS = {"minilm": (0, 1, 3, 5), "smollm2": (0, 10, 20)}
RADII = {"minilm": (0.01, 0.1, 0.3), "smollm2": (0.01, 0.1)}
CONTEXTS = (8192, 131072)
EDGES = tuple(2**power for power in range(7, 18))
CLEARLY = 1.5
ALLOWED = 0.001
LOOKS = [f"look {number}" for number in range(1, len(sliver.LOOKS) + 1)]
HEADER = ["layer", "radius", "context", "copies", "sliver", *LOOKS, "of the limit", "kept", "lost"]

Searches = Iterator[tuple[int, "Search"]]
Contexts = Callable[[Callable[[int], "Search"]], Searches]
Row = tuple["Search", list[str]]


@dataclass(frozen=True)
class Search:
    """What both ways found, over the radius, and what a first look would have said."""

    copies: float
    sliver: float
    shares: tuple[float, ...]

    @property
    def of_the_limit(self) -> float:
        """The smallest share over what is asked of it."""
        return min(share / hope for share, (*_, hope) in zip(self.shares, sliver.LOOKS, strict=True))

    @property
    def kept(self) -> bool:
        """Whether slivers are searched for."""
        return self.of_the_limit >= 1

    @property
    def lost(self) -> float:
        """By what part the attack stays below the sliver."""
        return 0.0 if self.kept else max(0.0, 1 - self.copies / self.sliver)


def searched(layer: AttentionLayer, measure: TokenMeasure, radius: float, context: int) -> Search:
    """Both ways to the end, of one sample."""
    shares: list[float] = []

    def looked(*given: Any) -> bool:
        *starts, ahead = given
        shares.extend(change / ahead for change in sliver._looked(*starts))
        return False

    with patch.object(sliver, "_hopeless", looked):
        attack, target = MassSplit(context=context), OutputChange(layer, measure)
        found = attack.candidates(target, Wasserstein(radius), torch.Generator().manual_seed(0))
        copies, slivers = (float(each.history[-1][0]) / radius for each in found)
    return Search(copies, slivers, tuple(shares))


def at_contexts(search: Callable[[int], Search]) -> Searches:
    """The two contexts."""
    for context in CONTEXTS:
        yield context, search(context)


def to_the_edge(search: Callable[[int], Search]) -> Searches:
    """Contexts, each twice the one before, up to the first in which every look finds slivers clearly ahead."""
    for context in EDGES:
        found = search(context)
        yield context, found
        if min(found.shares) > CLEARLY:
            return


def rows(layers: dict[str, tuple[int, ...]], radii: dict[str, tuple[float, ...]], contexts: Contexts) -> Iterator[Row]:
    """A search a row, with its cells."""
    for name, layer, measure in cases(layers, 32):
        for radius in radii[name.split()[0]]:
            for context, found in contexts(partial(searched, layer, measure, radius)):
                numbers = [f"{number:.4g}" for number in (found.copies, found.sliver)]
                shares = [f"{share:.3f}" for share in (*found.shares, found.of_the_limit)]
                said = ["kept" if found.kept else "left out", f"{100 * found.lost:.2f} %"]
                yield found, [name, f"{radius:g}", str(context), *numbers, *shares, *said]


def summary(searches: Sequence[Search]) -> str:
    """How many slivers win, how late the latest of them is, and what leaving out costs."""
    winners = [search for search in searches if search.sliver > search.copies * (1 + ALLOWED)]
    latest = [f"{min(search.shares[look] for search in winners):.2f}" for look in range(len(LOOKS))] if winners else []
    left_out = sum(not search.kept for search in searches)
    lost = 100 * max(search.lost for search in searches)
    return (
        f"{len(searches)} searches. Slivers win {len(winners)}: the latest had {' and '.join(latest)} of the copies' "
        f"change at the looks.\nSlivers are left out of {left_out}: at most {lost:.2f} % is lost."
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="MiniLM layer 0 at radius 0.1 alone")
    parser.add_argument("--edges", action="store_true", help="contexts doubling until slivers are clearly ahead")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    layers, radii = ({"minilm": (0,)}, {"minilm": (0.1,)}) if asked.quick else (LAYERS, RADII)
    found = []
    for search, cells in rows(layers, radii, to_the_edge if asked.edges else at_contexts):
        print("  ".join(cells), file=sys.stderr, flush=True)
        found.append((search, cells))
    print_table(HEADER, [cells for _, cells in found])
    print(summary([search for search, _ in found]))
    return int(any(search.lost > ALLOWED for search, _ in found))


if __name__ == "__main__":
    sys.exit(main())
