"""Best and worst of a sweep, setting by setting: what each value of each swept key amounts to."""

from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report.sweep_run import SweepRun
from robust_attn.report.trends import positive

VALUES_SHOWN = 24


@dataclass(frozen=True)
class ByValue:
    """All runs with one value of a setting; None where no run has the number.

    Best and worst are the largest and smallest of the runs' own worst: gain reached, share of the promise reached,
    and local constant where runs only measured.
    """

    key: str
    value: str
    runs: int
    unfinished: int
    gain: tuple[float, float] | None
    tightness: tuple[float, float] | None
    lipschitz: tuple[float, float] | None

    @property
    def known(self) -> bool:
        """Whether there is any number to compare."""
        return any(pair is not None for pair in (self.gain, self.tightness, self.lipschitz))


def by_value(runs: Sequence[SweepRun], keys: Sequence[str]) -> tuple[ByValue, ...]:
    """A line per key and value, numbers in order.

    Keys with as many values as runs say nothing and are left out, and so are those with nothing to compare.
    """
    found: list[ByValue] = []
    for key in keys:
        values = sorted({run.settings[key] for run in runs}, key=_order)
        lines = [_line(key, value, [run for run in runs if run.settings[key] == value]) for value in values]
        if len(values) < len(runs) and len(values) <= VALUES_SHOWN and sum(line.known for line in lines) > 1:
            found += lines
    return tuple(found)


def _order(value: str) -> tuple[float, str]:
    number = positive(value)
    return (0.0, value) if number is None else (number, "")


def _line(key: str, value: str, runs: Sequence[SweepRun]) -> ByValue:
    return ByValue(
        key=key,
        value=value,
        runs=len(runs),
        unfinished=sum(run.status != "complete" for run in runs),
        gain=_range([run.gain for run in runs]),
        tightness=_range([run.tightness for run in runs]),
        lipschitz=_range([run.lipschitz for run in runs]),
    )


def _range(values: Sequence[float | None]) -> tuple[float, float] | None:
    known = [value for value in values if value is not None]
    return (min(known), max(known)) if known else None
