"""Gains in a ball of tokens: the steepest configuration that a search found, beside what is proved about all."""

from __future__ import annotations

from collections.abc import Sequence

from robust_attn.records.kinds import BallRecord, SearchRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.records.verdicts import badness, verdict_counts
from robust_attn.types import Verdict
from robust_attn.views import words
from robust_attn.views.convergence import convergence_panel
from robust_attn.views.ladder import ladder_of, ladder_panel, ladder_table, paper_log10
from robust_attn.views.layers import verdict_of
from robust_attn.views.numerals import at_least, at_most, percent, power_of_ten
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.table import Fields, Table, counts, numbers, perhaps, table_of, texts, verdicts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, present
from robust_attn.views.words import counted, covering, largest, lengths_of, listed, place_of, sentence, share

_TERMS = (
    ("Gain", "How much further the output moves than the input, for a small change of the tokens."),
    ("Ball", "All tokens whose Euclidean norm is at most the radius of the search."),
    words.PAPER,
    ("HOLDS", "The search found no tokens steeper than the bound allows."),
    ("VIOLATED", "It found some: the bound or the code is wrong, and this must be looked into."),
    words.UNKNOWN,
)


def ball_view(run: Run) -> View:
    """Searches for the worst tokens."""
    searches = of_kind(run.records, SearchRecord)
    example = max(searches, key=lambda record: (badness(verdict_of(record)), record.tightness or 0.0))
    place = place_of(example)
    ladder = ladder_of(example)
    note = (
        "The smallest upper bound that applies is the one that counts; the others are shown so that you can see what "
        "it saves."
    )
    gain = "gain (output change per unit)"
    return View(
        statement=ball_statement(searches, "search", _promise(searches)),
        tiles=_tiles(searches),
        tables=(_table(searches),),
        panels=present(
            _layers(searches),
            ladder_panel("search-ladder", f"The ladder of bounds, {place}", ladder, gain, example.lipschitz.lower),
            convergence_panel(searches, "search-convergence", "search"),
        ),
        terms=_TERMS,
        details=(ladder_table("search-ladder-table", f"Every bound on the ball, {place}", ladder, "Gain", note),),
        question="how steep can its attention get?",
    )


def ball_statement(records: Sequence[BallRecord], noun: str, promise: str) -> Statement:
    """What is proved about every configuration in a ball, against the steepest ones found there."""
    chances = [record.certified.failure_probability for record in records if record.certified.constant is not None]
    return Statement(
        _headline(records, noun),
        (promise,),
        words.joint_confidence(chances, "bound"),
        "Anything about tokens outside that ball, or what later layers make of the change. A search that finds "
        "nothing steeper does not prove that there is nothing steeper: only the bounds do.",
    )


def _headline(records: Sequence[BallRecord], noun: str) -> Headline:
    counts = verdict_counts(map(verdict_of, records))
    total = len(records)
    if counts[Verdict.VIOLATED]:
        detail = (
            f"In {share(counts[Verdict.VIOLATED], total, noun)} tokens were found that amplify more than is proved "
            "possible. The bound, or the code that computed it, is wrong: do not rely on these numbers."
        )
        return Headline(Tone.VIOLATED, "A bound was broken", detail)
    if counts[Verdict.UNKNOWN]:
        which = sentence(share(counts[Verdict.UNKNOWN], total, noun))
        detail = f"{which} ended without a finite number, or within rounding."
        return Headline(Tone.UNKNOWN, "Not every bound could be computed", detail)
    closest = percent(largest(record.tightness for record in records))
    detail = f"{counted(total, noun)}. The steepest tokens found reach {closest} of what is proved."
    return Headline(Tone.HOLDS, "No bound was broken", detail)


def _promise(records: Sequence[BallRecord]) -> str:
    if any(record.verdict is Verdict.VIOLATED for record in records):
        return "Nothing is promised: a bound that a search has broken does not bound."
    by_layer = {
        layer: covering(record.certified.constant for record in records if record.layer == layer)
        for layer in sorted({record.layer or 0 for record in records})
    }
    amounts = [f"{at_most(gain)} in layer {layer}" for layer, gain in by_layer.items() if gain is not None]
    if not amounts:
        return "No finite bound was computed, so nothing is promised."
    radii = [record.radius for record in records if record.radius is not None]
    within = f"{words.span(radii)}{' (by layer)' if len(set(radii)) > 1 else ''}" if radii else "the radius searched"
    return (
        f"Whatever {lengths_of(records)} of norm at most {within} enter, and however they change within that ball, the "
        "output changes by at most a fixed multiple of the change (norms over all tokens, weighted by their masses): "
        f"{listed(amounts, 4)}."
    )


def _tiles(records: Sequence[BallRecord]) -> tuple[Tile, ...]:
    proved = covering(record.certified.constant for record in records)
    found = largest(record.lipschitz.lower for record in records)
    return (
        Tile("Largest gain proved", at_most(proved), "no tokens in the ball amplify more, in any layer"),
        Tile("Largest gain found", at_least(found), "by the search for the worst tokens"),
        Tile("Closest search", percent(largest(record.tightness for record in records)), "of what is proved"),
    )


def _table(records: Sequence[BallRecord]) -> Table:
    fields: Fields[BallRecord] = (
        counts("Layer", lambda record: record.layer),
        counts("Tokens", lambda record: record.tokens),
        numbers("Gain at most", lambda record: record.certified.constant, at_most),
        texts("Proved by", lambda record: record.certified.bound, code=True),
        numbers("Search found", lambda record: record.lipschitz.lower, at_least),
        numbers("Tightness", lambda record: record.tightness, percent),
        perhaps("Paper’s bound", paper_log10, power_of_ten, optional=True),
        verdicts(verdict_of),
    )
    note = (
        "The largest gain that any tokens in the ball can have, as proved, and the largest that the search found. "
        "Gains are output changes per unit of input change."
    )
    return table_of("search-table", "The worst tokens, layer by layer", fields, records, note=note, terminal=True)


def _layers(records: Sequence[BallRecord]) -> Panel | None:
    proved = {float(r.layer or 0): r.certified.constant for r in records if r.certified.constant}
    found = {float(r.layer or 0): r.lipschitz.lower for r in records if r.lipschitz.lower}
    if not proved and not found:
        return None
    return Panel(
        "search-layers",
        "Gain found against gain proved, layer by layer",
        "layer",
        "gain (output change per unit)",
        {"found": tuple(found.items()), "proved": tuple(proved.items())},
        looks={"found": Look(Role.OBSERVED), "proved": Look(Role.CERTIFIED)},
        log_x=False,
        caption="The thick blue line is proved: no tokens in the ball amplify a change more. The dashed orange line is "
        "the steepest configuration that the search found. The axis is logarithmic.",
    )
