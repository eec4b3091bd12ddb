"""The ladder of bounds of one record: from what was seen up to the loosest promise, and apart what promises nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from robust_attn.records.kinds import BallRecord, Check
from robust_attn.records.parts import BoundPart
from robust_attn.types import Scope, Side
from robust_attn.views.numerals import at_least, power_of_ten
from robust_attn.views.panel import LARGEST_LOG10, Look, Panel, Role
from robust_attn.views.table import ABSENT, LARGEST, Cell, Fields, Table, cells, table_of, texts
from robust_attn.views.words import PIECES_OF_TOKENS, SCOPES, family, smallest

DECADES_ABOVE = 8.0
"""Bounds further above what must be shown are named in the caption: e^(2a) would flatten everything else."""

APART = "constants at the tokens: no bounds"
"""The row of a figure after which these stand."""


@dataclass(frozen=True)
class Rung:
    """One bound; `log10` is the logarithm of what it allows, None where it does not apply or is not known."""

    bound: BoundPart
    log10: float | None
    promises: bool

    @property
    def role(self) -> Role:
        """The promise, another upper bound, a lower one, or one that speaks of infinitely small changes only."""
        if self.promises:
            return Role.CERTIFIED
        if self.bound.scope is Scope.LOCAL:
            return Role.TANGENT
        return Role.LOWER if self.bound.side is Side.LOWER else Role.BOUND

    @property
    def shown(self) -> str:
        """The value with the side from which it limits; a tangent value limits nothing within the budget."""
        if self.role is Role.LOWER and self.log10 is not None and abs(self.log10) < LARGEST_LOG10:
            return f"≥ {at_least(10**self.log10)}"
        return f"{'' if self.role is Role.TANGENT else '≤ '}{power_of_ten(self.log10)}"

    @property
    def why_not(self) -> str:
        """Why it says nothing."""
        return self.bound.why_not or "its value is not a finite number"


def ladder_of(record: Check | BallRecord) -> tuple[Rung, ...]:
    """Every bound on the output change within the budget, or on the gain in a ball.

    From the smallest to the largest, then those at the tokens, then those that do not apply or are not known.
    """
    offset = _offset(record) if isinstance(record, Check) else 0.0
    values = [(bound, _log10_of(bound, offset)) for bound in record.bounds]
    rungs = [Rung(bound, log10, bound.name == record.certified.bound and log10 is not None) for bound, log10 in values]

    def place(rung: Rung) -> tuple[bool, bool, float, str]:
        return rung.log10 is None, rung.role is Role.TANGENT, rung.log10 or 0.0, rung.bound.name

    return tuple(sorted(rungs, key=place))


def paper_log10(record: Check | BallRecord) -> float | None:
    """The smallest upper bound of the paper, by its logarithm."""
    upper = [rung for rung in ladder_of(record) if rung.bound.side is Side.UPPER]
    return smallest(rung.log10 for rung in upper if rung.bound.name.startswith("paper."))


def ladder_table(name: str, title: str, ladder: Sequence[Rung], quantity: str, note: str, *, copies: int = 1) -> Table:
    """A line per bound, with its ratio to the promise; `copies` of a token were written by the attack."""
    scopes = SCOPES | ({Scope.BALL: PIECES_OF_TOKENS} if copies > 1 else {})
    base = next((rung.log10 for rung in ladder if rung.promises), None)
    fields: Fields[Rung] = (
        texts("Bound", lambda rung: rung.bound.name, code=True),
        texts("What it is", _kind),
        texts("Speaks for", lambda rung: scopes[rung.bound.scope], optional=True),
        cells(quantity, _value),
        cells("Against the promise", lambda rung: _ratio(rung, base), optional=True),
    )
    return table_of(name, title, fields, ladder, note=note)


def ladder_panel(name: str, title: str, ladder: Sequence[Rung], quantity: str, reached: float | None) -> Panel | None:
    """Every bound of one record on one logarithmic scale; nothing where none can be drawn."""
    known = [rung for rung in ladder if rung.log10 is not None and abs(rung.log10) < LARGEST_LOG10]
    if not known:
        return None
    floor = math.log10(reached) if reached else min(rung.log10 or 0.0 for rung in known)
    near = [rung for rung in known if (rung.log10 or 0.0) <= floor + 2 * DECADES_ABOVE]
    start, rows = 10**floor, _rows(near)
    values = {place: 10 ** (rung.log10 or 0.0) for place, rung in enumerate(rows) if rung is not None}
    seen = " The orange mark is what was reached." if reached else ""
    caption = (
        f"Each row is one theorem’s answer to the same question. Filled blue: the promise.{seen} Hollow circles are "
        "lower bounds, which no promise for the same inputs can undercut. Grey diamonds, apart at the end, are "
        f"constants at the tokens: they bound infinitely small changes only.{_beyond(ladder, near)}"
    )
    return Panel(
        name,
        title,
        "bound",
        quantity,
        {rung.bound.name: ((float(place), values[place]),) for place, rung in enumerate(rows) if rung is not None},
        looks={rung.bound.name: Look(rung.role, rung.bound.name) for rung in near},
        categories=tuple(APART if rung is None else rung.bound.name for rung in rows),
        ranges=tuple(
            (float(place), min(start, values[place]), max(start, values[place]))
            for place, rung in enumerate(rows)
            if rung is not None and rung.role is not Role.TANGENT
        ),
        level=reached,
        caption=caption,
        description="; ".join(f"{rung.bound.name} {rung.shown}" for rung in near),
    )


def _rows(near: Sequence[Rung]) -> list[Rung | None]:
    """The bounds, then a row without one, then constants at the tokens, where there are both."""
    apart = [rung for rung in near if rung.role is Role.TANGENT]
    bounds = [rung for rung in near if rung.role is not Role.TANGENT]
    return [*bounds, None, *apart] if apart and bounds else list(near)


def _kind(rung: Rung) -> str:
    if rung.bound.comparator:
        return family("comparator")
    if rung.bound.scope is Scope.LOCAL:
        return "constant at the tokens times the budget: for infinitely small changes, no bound"
    if rung.bound.side is Side.LOWER:
        return "lower bound: no promise for these inputs can be smaller"
    return f"{family(rung.bound.name)}{' — the promise' if rung.promises else ''}"


def _value(rung: Rung) -> Cell:
    if rung.log10 is None:
        return Cell(f"does not apply: {rung.why_not}")
    return Cell(rung.shown, max(rung.log10, -LARGEST))


def _ratio(rung: Rung, base: float | None) -> Cell:
    known = rung.log10 is not None and base is not None and math.isfinite(base)
    if not known or rung.role is Role.TANGENT:
        return Cell(ABSENT)
    ratio = (rung.log10 or 0.0) - (base or 0.0)
    return Cell(f"{power_of_ten(ratio)} ×", max(ratio, -LARGEST))


def _log10_of(bound: BoundPart, offset: float | None) -> float | None:
    change = bound.output_change
    if not (bound.applies or bound.at_tokens):
        return None
    if change is not None:
        return math.log10(change) if change > 0 else None if change < 0 else -math.inf
    return bound.log10 + offset if bound.log10 is not None and offset is not None else None


def _offset(check: Check) -> float | None:
    """What turns the `log10` of a bound into the logarithm of an output change.

    A bound such as e^(2a) overflows as an output change and is known by its log10 alone, which is that of a Lipschitz
    constant. The factor between the two is read off the bounds that carry both, else it is the radius of the budget.
    """
    pairs = ((bound.output_change, bound.log10) for bound in check.bounds)
    offsets = [math.log10(change) - log10 for change, log10 in pairs if change and change > 0 and log10 is not None]
    if offsets:
        return median(offsets)
    radius = check.budget.radius
    return math.log10(radius) if radius is not None and radius > 0 else None


def _beyond(ladder: Iterable[Rung], near: Sequence[Rung]) -> str:
    """The bounds that are too large to draw beside the rest, named with their size."""
    far = [rung for rung in ladder if rung not in near and rung.log10 is not None and rung.log10 > 0]
    named = [f"{rung.bound.name} ({power_of_ten(rung.log10)})" for rung in far]
    return f" Far above the axis: {', '.join(named)}." if named else ""
