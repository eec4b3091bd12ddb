"""Promises about layers: which sample of a layer is the worst, what covers all of them, tables and figures of both."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from robust_attn.records.kinds import AttackRecord, BallRecord, Check, RepeatLayerRecord
from robust_attn.records.verdicts import badness
from robust_attn.types import Covers, Scope, Verdict
from robust_attn.views import table
from robust_attn.views.ladder import DECADES_ABOVE, ladder_of, paper_log10
from robust_attn.views.numerals import at_least, at_most, percent, percent_at_most, power_of_ten
from robust_attn.views.panel import LARGEST_LOG10, Look, Panel, Point, Role, positive_line
from robust_attn.views.samples import sample_fields, sample_number
from robust_attn.views.table import Fields, Table, constants, counts, numbers, perhaps, table_of, texts, verdicts
from robust_attn.views.words import COVERS, covering, largest


@dataclass(frozen=True)
class LayerRow:
    """One layer: the promise of `widest` covers all of its `checks`, `worst` is the one that matters most."""

    layer: int | None
    checks: tuple[Check, ...]
    widest: Check
    worst: Check

    @property
    def certified(self) -> float | None:
        """What the output of the layer is promised not to exceed, in any sample."""
        return self.widest.certified.output_change

    @property
    def share(self) -> float | None:
        """The promise as a share of the norm of the output, the largest over the samples; None where it is unknown."""
        return covering(share_of(check.certified.output_change, check.scale.output) for check in self.checks)

    @property
    def in_context(self) -> float | None:
        """The promise against all splits that the attack's context allows, in any sample; None where it is unknown."""
        return covering(in_context_of(check) for check in self.checks)

    @property
    def verdict(self) -> Verdict:
        """That of the worst sample: a bad one comes before any other."""
        return verdict_of(self.worst)


def in_context_of(check: Check) -> float | None:
    """The promise against all splits that the attack's context allows, where one was asked for."""
    part = check.in_context if isinstance(check, AttackRecord) else None
    return None if part is None else part.output_change


def share_of(change: float | None, norm: float | None) -> float | None:
    """A change as a share of the norm of what changes."""
    return change / norm if change is not None and norm else None


def verdict_of(record: Check | BallRecord | RepeatLayerRecord) -> Verdict:
    """What the record says, except that nothing is promised where the certified number is not known."""
    known = record.certified.promise is not None
    return record.verdict if known or record.verdict is Verdict.VIOLATED else Verdict.UNKNOWN


def covers_of(check: Check) -> Covers:
    """Against which perturbations the promise holds; records of old do not say, but their bound does."""
    if check.certified.covers is not None:
        return check.certified.covers
    bound = check.bound(check.certified.bound)
    if bound is not None and bound.scope is Scope.MEASURES:
        return Covers.MEASURES
    if bound is not None and bound.scope is Scope.PIECES:
        return Covers.CONTEXT
    return Covers.COPIES if check.copies > 1 else Covers.ATOMS


def by_layer(checks: Iterable[Check]) -> tuple[LayerRow, ...]:
    """One line per layer, in order; a layer with an unknown promise has no promise for all its samples."""
    groups: defaultdict[int | None, list[Check]] = defaultdict(list)
    for check in checks:
        if check.head is None:  # what one head promises is not a promise of its layer
            groups[check.layer].append(check)
    order = sorted(groups, key=lambda layer: math.inf if layer is None else layer)
    found = ((layer, tuple(groups[layer])) for layer in order)
    return tuple(LayerRow(layer, some, max(some, key=promised), max(some, key=concern)) for layer, some in found)


def promised(check: Check) -> float:
    """The size of the promise; one that is not known is the largest of all."""
    change = check.certified.output_change
    return math.inf if change is None else change


def concern(check: Check) -> tuple[int, float, float]:
    """What makes one record worse than another: a bad verdict, a promise more nearly reached, a larger one."""
    return badness(verdict_of(check)), check.tightness or 0.0, promised(check)


def example_of(checks: Iterable[Check]) -> Check | None:
    """The record whose bounds are shown: the worst; among equally bad verdicts a whole layer comes before a head."""

    def key(check: Check) -> tuple[int, bool, float, float]:
        rank, tightness, size = concern(check)
        return rank, check.head is None, tightness, size

    return max((check for check in checks if check.bounds), key=key, default=None)


def ranks_in_layer(checks: Sequence[Check]) -> list[int]:
    """For each record how many of its layer are worse: 0 for the worst one."""
    order = sorted(range(len(checks)), key=lambda index: concern(checks[index]), reverse=True)
    ranks, seen = [0] * len(checks), Counter[int | None]()
    for index in order:
        ranks[index] = seen[checks[index].layer]
        seen[checks[index].layer] += 1
    return ranks


def shown_first(checks: Sequence[Check], limit: int) -> list[Check]:
    """At most `limit` records in their order: those that ask for attention, then the worst of every layer alike."""
    bad = [verdict_of(check) in (Verdict.VIOLATED, Verdict.UNKNOWN) for check in checks]
    ranks = ranks_in_layer(checks)
    chosen = sorted(range(len(checks)), key=lambda index: (not bad[index], ranks[index]))[:limit]
    return [checks[index] for index in sorted(chosen)]


def layer_table(checks: Sequence[Check], noun: str, *, terminal: bool) -> Table:
    """The promise of every layer, beside its worst sample."""
    attacked, rows = any(check.attacked for check in checks), by_layer(checks)
    several: Fields[LayerRow] = (texts("Covers", lambda row: COVERS[covers_of(row.widest)], optional=True),)
    other: Fields[LayerRow] = (
        sample_number(checks, lambda row: row.worst, "Worst {}", optional=True),
        numbers("Its promise", lambda row: row.worst.certified.output_change, at_most),
    )
    seen: Fields[LayerRow] = (
        *(other if any(row.worst is not row.widest for row in rows) else ()),
        numbers("Attack reached", lambda row: row.worst.observed.output_change, at_least),
        numbers("Tightness", lambda row: row.worst.tightness, percent, meaning="attack reached / its promise"),
        numbers("Gain", lambda row: row.worst.observed.gain, at_least),
    )

    def paper(row: LayerRow) -> float | None:
        return paper_log10(row.worst) if attacked else largest(map(paper_log10, row.checks))

    beside: Fields[LayerRow] = (perhaps("However split", lambda row: row.in_context, at_most, optional=True),)
    fields: Fields[LayerRow] = (
        counts("Layer", lambda row: row.layer),
        verdicts(lambda row: row.verdict),
        numbers("Moves at most", lambda row: row.certified, at_most),
        perhaps("Of its norm", lambda row: row.share, percent_at_most, optional=True),
        *(beside if any(row.in_context is not None for row in rows) else ()),
        *(seen if attacked else ()),
        constants("Local constant", lambda row: row.worst.lipschitz, optional=True),
        texts("Certified by", lambda row: row.widest.certified.bound, code=True, optional=True),
        *(several if len({covers_of(row.widest) for row in rows}) > 1 else ()),
        perhaps("Paper’s bound", paper, power_of_ten, optional=True),
    )
    title = "The promise, layer by layer"
    note = _layer_note(rows, noun, attacked=attacked)
    return table_of("layer-table", title, fields, rows, note=note, terminal=terminal)


def _layer_note(rows: Sequence[LayerRow], noun: str, *, attacked: bool) -> str:
    scale = ", also as a share of the norm of that output" if any(row.share is not None for row in rows) else ""
    note = f"The output of a layer moves by at most the amount given{scale}, for every {noun} tested."
    covered = {COVERS[covers_of(row.widest)] for row in rows}
    note += f" Covered: {covered.pop()}." if len(covered) == 1 else ""
    beside = (
        f" Beside it the {noun} where the attack came closest to its own promise. Gain and local constant are per unit "
        "of input change."
    )
    return note + (beside if attacked else "")


def record_table(checks: Sequence[Check], noun: str) -> Table:
    """A line per record, at most so many as a page can hold; the attack where there are several."""
    several: Fields[Check] = (
        texts("Attack", lambda check: check.attack),
        counts("Copies", lambda check: check.copies),
    )
    seen: Fields[Check] = (
        *(several if len({check.attack for check in checks}) > 1 else ()),
        numbers("Observed gain", lambda check: check.observed.gain, at_least),
        numbers("Tightness", lambda check: check.tightness, percent),
    )
    fields: Fields[Check] = (
        counts("Layer", lambda check: check.layer),
        counts("Head", lambda check: check.head, optional=True),
        *sample_fields(checks),
        verdicts(verdict_of),
        counts("Tokens", lambda check: check.tokens),
        *(seen if any(check.attacked for check in checks) else ()),
        numbers("Moves at most", lambda check: check.certified.output_change, at_most),
        perhaps("Norm of tokens", lambda check: check.scale.tokens, optional=True),
        perhaps("Norm of output", lambda check: check.scale.output, optional=True),
        constants("Local constant", lambda check: check.lipschitz),
        texts("Certified by", lambda check: check.certified.bound, code=True),
        perhaps("Paper’s bound", paper_log10, power_of_ten, optional=True),
    )
    shown = shown_first(checks, table.ROWS_SHOWN)
    note = (
        f"One line per layer and {noun}. Gain and local constant are per unit of input change; promise and paper’s "
        "bound are output changes within the budget."
    )
    if len(checks) > len(shown):
        note += " First those that ask for attention, then of every layer those where the attack came closest."
    return table_of("record-table", "Every record", fields, shown, note=note, total=len(checks))


def layers_panel(checks: Sequence[Check]) -> Panel | None:
    """Observed and certified output change per layer, the worst sample of each; other upper bounds are thin lines."""
    worst = [row.worst for row in by_layer(checks) if row.layer is not None]
    attacked = any(check.attacked for check in worst)
    certified = positive_line((check.layer or 0, check.certified.output_change) for check in worst)
    observed = positive_line((check.layer or 0, check.observed.output_change) for check in worst if check.attacked)
    bounds = _bounds(worst)
    shown = [math.log10(y) for _, y in (*certified, *observed)]
    low = min((log10 for line in bounds.values() for _, log10 in line), default=0.0)
    ceiling = min(max(shown, default=low) + DECADES_ABOVE, LARGEST_LOG10)
    near = {name: tuple((x, 10**y) for x, y in line if y <= ceiling) for name, line in bounds.items()}
    near = {name: line for name, line in near.items() if line}
    far = [f"{name} ({power_of_ten(max(y for _, y in line))})" for name, line in bounds.items() if name not in near]
    lines = {**({"observed": observed} if observed else {}), **({"certified": certified} if certified else {}), **near}
    if not lines or len(worst) < 2:  # one layer alone is told by the ladder of its bounds
        return None
    looks = {name: Look(Role.BOUND, name) for name in near}
    looks |= {"observed": Look(Role.OBSERVED), "certified": Look(Role.CERTIFIED)}
    return Panel(
        "layers",
        "Observed against certified, layer by layer" if attacked else "Certified, layer by layer",
        "layer",
        "change of the output",
        lines,
        looks=looks,
        log_x=False,
        caption=_layers_caption(attacked=attacked) + (f" Far above the axis: {', '.join(far)}." if far else ""),
        description="; ".join(_told(check) for check in worst),
    )


def _layers_caption(*, attacked: bool) -> str:
    reached = (
        "The dashed orange line is how far the attack really got. The closer the two, the less is given away; an "
        "orange point above the blue line would be a broken promise. Every point belongs to the sample of its layer "
        "where the attack came closest."
    )
    return (
        "The thick blue line is the promise: no perturbation that it covers moves the output further. "
        f"{reached if attacked else 'Every point belongs to the sample of its layer with the largest promise.'} "
        "Thin lines are the other upper bounds. The axis is logarithmic."
    )


def _told(check: Check) -> str:
    seen = f"observed {at_least(check.observed.output_change)}, " if check.attacked else ""
    change = check.certified.output_change
    return f"layer {check.layer}: {seen}{'not certified' if change is None else 'certified ' + at_most(change)}"


def _bounds(worst: Sequence[Check]) -> dict[str, list[Point]]:
    """Upper bounds that could be promises, by layer and in logarithms, from the smallest to the largest."""
    lines: defaultdict[str, list[Point]] = defaultdict(list)
    for check in worst:
        for rung in ladder_of(check):
            if rung.bound.certifies and not rung.promises and rung.log10 is not None and math.isfinite(rung.log10):
                lines[rung.bound.name].append((float(check.layer or 0), rung.log10))
    return dict(sorted(lines.items(), key=lambda item: min(y for _, y in item[1])))
