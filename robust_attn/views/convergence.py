"""Whether attacks and searches had finished: what they still gained after each step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from robust_attn.records.kinds import BallRecord, Check
from robust_attn.views.numerals import at_most
from robust_attn.views.panel import Look, Panel, Point, Role
from robust_attn.views.words import counted

CURVES_SHOWN = 40
FLOOR = 1e-12
"""A share below this is rounding, and is drawn here."""
LAST_PART = 0.75
"""The steps after this part of all are the last ones."""
STILL_RISING = 0.01
"""An attack that gained more than this share in its last steps would have gone further with more of them."""


def convergence_panel(
    records: Iterable[Check | BallRecord], name: str = "convergence", what: str = "attack"
) -> Panel | None:
    """What was still missing after each step, as a share of where it ended; the latest to arrive first.

    Nothing where every attack was at its end from the start, up to rounding: there is nothing to see.
    """
    found = ((record, still_missing(record.convergence, end_of(record))) for record in records if record.head is None)
    curves = [(record, gaps) for record, gaps in found if len(gaps) > 1]
    if not any(gap > FLOOR for _, gaps in curves for _, gap in gaps):
        return None
    late = [late_gain(gaps) for _, gaps in curves]
    order = sorted(range(len(curves)), key=lambda index: -late[index])[:CURVES_SHOWN]
    drawn = {f"layer {record.layer}, {record.named}": gaps for record, gaps in (curves[index] for index in order)}
    many = f" Drawn are the {CURVES_SHOWN} of {len(curves)} that rose longest." if len(curves) > CURVES_SHOWN else ""
    return Panel(
        name,
        f"Did the {what} finish its work?",
        f"{what} step",
        "still missing, share of the end",
        drawn,
        looks=dict.fromkeys(drawn, Look(Role.TRACE)),
        log_x=False,
        caption=(
            f"{_answer(max(late), what)} Each curve is one {what}: how much was still missing after each step, as a "
            f"share of where it ended. The axis is logarithmic; {_power(FLOOR)} stands for anything smaller.{many}"
        ),
        description=f"{counted(len(curves), 'curve')}; the last steps gained at most {at_most(max(late), 2)}",
    )


def end_of(record: Check | BallRecord) -> float | None:
    """Where the attack or the search ended."""
    return record.lipschitz.lower if isinstance(record, BallRecord) else record.observed.output_change


def still_missing(steps: Sequence[float | None], end: float | None) -> tuple[Point, ...]:
    """Per step what was missing to the best that is known, as a share of it; steps that are not known are left out."""
    known = [(step, value) for step, value in enumerate(steps) if value is not None]
    best = max([value for _, value in known] + ([end] if end is not None else []), default=0.0)
    if best <= 0:
        return ()
    return tuple((float(step), max(1.0 - value / best, FLOOR)) for step, value in known)


def late_gain(gaps: Sequence[Point]) -> float:
    """The share that the last quarter of the steps gained."""
    return gaps[int(LAST_PART * (len(gaps) - 1))][1]


def _answer(late: float, what: str) -> str:
    if late > STILL_RISING:
        return f"Not quite: the last quarter of its steps still gained up to {at_most(late * 100, 2)} %; take more."
    gained = "nothing" if late <= FLOOR else f"at most {at_most(late, 2)} of the result"
    return f"Yes, as far as its own steps tell: the last quarter of them gained {gained}. Another {what} may find more."


def _power(value: float) -> str:
    return at_most(value, 1).removeprefix("1·")
