"""Power laws: the exponent of a quantity against a size, with an interval over the series that were measured."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean, stdev

CONFIDENCE = 0.95


@dataclass(frozen=True)
class PowerLaw:
    """value ~ size^exponent. `interval` is None with fewer than two series, or where they carry no spread estimate."""

    exponent: float | None
    interval: tuple[float, float] | None
    series: int


def power_law(points: Iterable[tuple[int, float, float | None]]) -> PowerLaw:
    """Fit (series, size, value) triples; values that are missing or not positive are left out.

    Each series (a window of text, read at growing lengths) has its own least-squares slope of log value against log
    size. The exponent is their mean, the interval Student's t over series: points of one series are not independent,
    so they are never counted as if they were. It says how far other windows would move the fit, and nothing about
    whether a power law is the right curve.
    """
    series: dict[int, list[tuple[float, float]]] = {}
    for name, size, value in points:
        if value is not None and value > 0 and size > 0:
            series.setdefault(name, []).append((math.log(size), math.log(value)))
    slopes = [slope for entries in series.values() if (slope := _slope(entries)) is not None]
    if not slopes:
        return PowerLaw(None, None, 0)
    return PowerLaw(fmean(slopes), _interval(slopes), len(slopes))


def _slope(points: list[tuple[float, float]]) -> float | None:
    x_mean, y_mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    return sum((x - x_mean) * (y - y_mean) for x, y in points) / spread if spread > 0 else None


def _interval(slopes: list[float]) -> tuple[float, float] | None:
    if len(slopes) < 2:
        return None
    from scipy.stats import t

    half = float(t.ppf((1 + CONFIDENCE) / 2, len(slopes) - 1)) * stdev(slopes) / math.sqrt(len(slopes))
    return fmean(slopes) - half, fmean(slopes) + half


def slope_with_error(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Least-squares slope through at least three points at two places, and its standard error."""
    x_mean, y_mean = fmean(x for x, _ in points), fmean(y for _, y in points)
    value = _slope(points) or 0.0
    spread = sum((x - x_mean) ** 2 for x, _ in points)
    residual = sum((y - y_mean - value * (x - x_mean)) ** 2 for x, y in points)
    return value, math.sqrt(residual / (len(points) - 2) / spread)
