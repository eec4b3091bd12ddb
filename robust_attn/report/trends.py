"""Growth along a swept number: exponents of a power law, fitted where there are enough points."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report.sweep_run import SweepRun

FEWEST_POINTS = 3
REPEATED = ("seed",)
"""Settings that repeat a run rather than change what it is about: nothing is drawn or fitted against them."""


@dataclass(frozen=True)
class Trend:
    """`quantity` grows like `key` to the power `exponent` within the runs that share `group`."""

    key: str
    group: str
    quantity: str
    points: int
    exponent: float
    standard_error: float


def numeric_keys(runs: Sequence[SweepRun], keys: Sequence[str]) -> tuple[str, ...]:
    """Swept keys whose every value is a positive number, other than those that only repeat runs."""
    swept = (key for key in keys if key not in REPEATED)
    return tuple(key for key in swept if all(positive(run.settings[key]) is not None for run in runs))


def positive(text: str) -> float | None:
    """The positive finite number that `text` spells, or None."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if 0 < value < math.inf else None


def group_of(run: SweepRun, keys: Sequence[str], without: str) -> str:
    """The settings of a run other than one key and those that only repeat runs, as a label."""
    kept = (key for key in keys if key != without and key not in REPEATED)
    return ", ".join(f"{key}={run.settings[key]}" for key in kept) or "all runs"


def trends_of(runs: Sequence[SweepRun], keys: Sequence[str]) -> tuple[Trend, ...]:
    """Fitted exponents of gain, certified change and Lipschitz constant against each swept number."""
    found: list[Trend] = []
    for key in numeric_keys(runs, keys):
        for quantity in ("gain", "certified", "lipschitz"):
            points: defaultdict[str, list[tuple[float, float]]] = defaultdict(list)
            for run in runs:
                x, y = positive(run.settings[key]), getattr(run, quantity)
                if x is not None and y is not None and y > 0:
                    points[group_of(run, keys, key)].append((math.log(x), math.log(y)))
            found += [
                Trend(key, group, quantity, len(pairs), *slope(pairs))
                for group, pairs in points.items()
                if len({x for x, _ in pairs}) >= FEWEST_POINTS
            ]
    return tuple(found)


def fitted_slope(pairs: Sequence[tuple[float, float]]) -> float:
    """Least-squares slope through at least two places."""
    x_mean, y_mean = (sum(axis) / len(pairs) for axis in zip(*pairs, strict=True))
    spread = sum((x - x_mean) ** 2 for x, _ in pairs)
    return sum((x - x_mean) * (y - y_mean) for x, y in pairs) / spread


def slope(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Least-squares slope and its standard error."""
    count = len(pairs)
    x_mean, y_mean = (sum(axis) / count for axis in zip(*pairs, strict=True))
    value = fitted_slope(pairs)
    spread = sum((x - x_mean) ** 2 for x, _ in pairs)
    residual = sum((y - y_mean - value * (x - x_mean)) ** 2 for x, y in pairs)
    return value, math.sqrt(residual / (count - 2) / spread)
