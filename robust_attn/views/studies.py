"""Studies of the paper's bounds: configurations at one head, splitting beside moving, bounds against the radius."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from robust_attn.records.kinds import Check, SplittingRecord, StudyRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import words
from robust_attn.views.balls import ball_statement
from robust_attn.views.checks import check_panels, check_statement, ladder_details
from robust_attn.views.facts import input_noun
from robust_attn.views.layers import record_table, verdict_of
from robust_attn.views.numerals import at_least, at_most, multiple, percent, plain
from robust_attn.views.panel import Panel, panel_table
from robust_attn.views.table import Fields, Table, counts, numbers, perhaps, table_of, texts, verdicts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, merged, present
from robust_attn.views.words import largest

_TERMS = (
    ("Constant", "The largest gain of an infinitely small change of these tokens."),
    ("Attained", "What the configuration itself shows: no bound for such tokens can be smaller."),
    words.PAPER,
    words.TIGHTNESS,
    ("HOLDS", "What was attained lies between the bounds."),
    ("VIOLATED", "It lies above an upper bound or below a lower one: bound or code is wrong."),
    words.UNKNOWN,
)


def study_view(run: Run, panels: Sequence[Panel] = ()) -> View:
    """A study with the figures that its task draws, each also as a table."""
    configurations, splittings = of_kind(run.records, StudyRecord), of_kind(run.records, SplittingRecord)
    checks = of_kind(run.records, Check)
    views = present(
        _configurations(configurations) if configurations else None,
        _splittings(splittings) if splittings else None,
        _checks(checks, input_noun(run), figures=not panels) if checks else None,
    )
    # What could not be computed heads a study before what could: it must not look like success.
    whole = merged(sorted(views, key=lambda view: view.statement.headline.tone is not Tone.UNKNOWN))
    verdicts_given = words.verdict_words(verdict_counts(record.judged for record in run.records))
    return replace(
        whole,
        tiles=(*whole.tiles, Tile("Records", str(len(run.records)), verdicts_given or "none of them makes a promise")),
        tables=tuple(map(panel_table, panels)) or whole.tables,
        panels=(*panels, *whole.panels),
        details=(*(whole.tables if panels else ()), *whole.details),
        question="how good are the bounds?",
    )


def _configurations(records: Sequence[StudyRecord]) -> View:
    steepest = at_least(largest(record.lipschitz.lower for record in records))
    closest = percent(largest(record.tightness for record in records))
    broken = any(record.verdict is Verdict.VIOLATED for record in records)
    promise = (
        "Nothing is promised: a bound that was broken does not bound."
        if broken
        else "Whatever tokens of the number and norm of a line enter, and however they change within that ball, the "
        "output changes by at most the bound of that line times their change."
    )
    return View(
        statement=ball_statement(records, "configuration", promise),
        tiles=(
            Tile("Steepest tokens", steepest, "largest constant that was attained"),
            Tile("Closest to a bound", closest, "attained over the smallest upper bound"),
        ),
        tables=(_configuration_table(records),),
        terms=_TERMS,
    )


def _configuration_table(records: Sequence[StudyRecord]) -> Table:
    several = len({record.layer for record in records}) > 1
    fields: Fields[StudyRecord] = (
        texts("Configuration", lambda record: record.configuration),
        texts("Mask", lambda record: record.mask),
        counts("Layer", lambda record: record.layer if several else None, optional=True),
        counts("Tokens", lambda record: record.tokens),
        numbers("Radius", lambda record: record.radius),
        perhaps("Special mass", lambda record: record.special_mass, optional=True),
        numbers("Attained", lambda record: record.lipschitz.lower, at_least),
        numbers("At most", lambda record: record.certified.constant, at_most),
        texts("Bound by", lambda record: record.certified.bound, code=True),
        numbers("Tightness", lambda record: record.tightness, percent),
        verdicts(verdict_of),
    )
    note = "Constants: what the tokens attain, and the smallest upper bound of their ball."
    return table_of("study-table", "Configuration by configuration", fields, records, note=note, terminal=True)


def _splittings(records: Sequence[SplittingRecord]) -> View:
    ratios = [ratio for record in records if (ratio := _split_over_move(record)) is not None]
    gain = largest(record.observed.w2_gain for record in records)
    detail = f"Splitting reaches up to {multiple(largest(ratios))} what moving can." if ratios else ""
    detail += f" The largest gain of a sliver of mass is {at_least(gain)}." if gain is not None else ""
    headline = Headline(Tone.MEASURED, "Splitting was measured beside moving", detail.strip())
    if any(record.split is None and record.observed.w2_gain is None for record in records):
        headline = Headline(Tone.UNKNOWN, "Not every number could be computed", detail.strip())
    fields: Fields[SplittingRecord] = (
        texts("Series", lambda record: record.series),
        numbers("Mass", lambda record: record.mass),
        perhaps("Moving", lambda record: record.move, at_least, optional=True),
        perhaps("Splitting", lambda record: record.split, at_least, optional=True),
        perhaps("Ratio", _split_over_move, optional=True),
        perhaps("W2 gain seen", lambda record: record.observed.w2_gain, at_least, optional=True),
    )
    note = "Local constants of moving and of splitting, and what a sliver of that mass really did."
    table = table_of("splitting-table", "Splitting beside moving", fields, records, note=note, terminal=True)
    tiles = (Tile("Splitting over moving", multiple(largest(ratios)), "largest ratio"),) if ratios else ()
    promise = "Nothing is promised: these are examples that were computed, not limits."
    limits = "Anything about other layers and tokens than those of the examples."
    return View(Statement(headline, (promise,), limits=limits), tiles, (table,))


def _split_over_move(record: SplittingRecord) -> float | None:
    return record.split / record.move if record.split and record.move else None


def _checks(checks: Sequence[Check], noun: str, *, figures: bool) -> View:
    """Promises at several radii, or with several numbers of copies."""
    excess = largest(map(excess_of, checks))
    tile = Tile("Certified over local", plain(excess), "largest ratio of the promise to radius × local constant")
    broken = any(verdict_of(check) is Verdict.VIOLATED for check in checks)
    return View(
        check_statement(checks, noun),
        tiles=(tile,) if excess is not None else (),
        panels=check_panels(checks) if figures else (),
        terms=(words.TIGHTNESS,),
        details=(*(ladder_details(checks) if broken or figures else ()), record_table(checks, noun)),
    )


def excess_of(check: Check, bound: str | None = None) -> float | None:
    """The change that a bound (by default the certificate) allows, over radius times the local constant attained."""
    exact = (check.budget.radius or 0.0) * (check.lipschitz.lower or 0.0)
    part = check.bound(bound) if bound is not None else None
    stated = part.output_change if part and (part.applies or part.at_tokens) else None
    change = check.certified.output_change if bound is None else stated
    return change / exact if change is not None and exact > 0 else None
