"""The first thing a report says: a verdict on the run, what is promised, how surely, and what is not."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report import words
from robust_attn.report.numerals import at_most, percent, plain
from robust_attn.report.rows import LayerRow, Row, by_layer, largest, verdict_counts
from robust_attn.report.sensitivity import Constant
from robust_attn.report.words import Headline, Setting, counted
from robust_attn.types import Verdict

MEASURED = "measured"


@dataclass(frozen=True)
class Statement:
    """What one kind of records amounts to, in words; an empty confidence is one that nobody asks for."""

    headline: Headline
    promise: str
    confidence: str
    limits: str


def leading(statements: Sequence[Statement]) -> Statement:
    """The statement that heads the report: a broken promise before any other, else the first."""
    broken = (statement for statement in statements if statement.headline.tone == "violated")
    return next(broken, statements[0])


def check_statement(rows: Sequence[Row], layers: Sequence[LayerRow], setting: Setting) -> Statement:
    """Promises about output changes within a budget."""
    limits = (
        f"Anything about larger perturbations, other {setting.noun}s than those tested (unless a bound says it covers "
        "every input), or what later layers make of the change."
    )
    return Statement(words.headline(rows), words.promise(rows, layers, setting), words.confidence(rows), limits)


def search_statement(rows: Sequence[Row], radii: Sequence[float]) -> Statement:
    """Bounds on every token configuration in a ball, against the steepest one found there."""
    return Statement(
        _search_headline(rows),
        _search_promise(rows, radii),
        words.confidence(rows),
        "Anything about tokens outside that ball, or what later layers make of the change. A search that finds "
        "nothing steeper does not prove that there is nothing steeper: only the bounds do.",
    )


def constant_statement(constants: Sequence[Constant]) -> Statement:
    """Local Lipschitz constants: measured, and no promise about any perturbation of a given size."""
    lengths = sorted({constant.tokens for constant in constants if constant.tokens is not None})
    span = f" at {lengths[0]} to {lengths[-1]} tokens" if len(lengths) > 1 else ""
    title = "Sensitivity was measured; nothing was attacked"
    detail = f"{counted(len(constants), 'local Lipschitz constant')}{span}."
    limits = (
        "Anything about perturbations of a given size: a local constant speaks of infinitely small ones. "
        "task=certify gives a promise within a budget."
    )
    return Statement(
        Headline(MEASURED, title, detail), _constant_promise(constants), _constant_confidence(constants), limits
    )


def other_statement(records: Sequence[Mapping[str, Any]]) -> Statement:
    """Records that the report has no words for; a violation that they state is said all the same."""
    broken = sum(record.get("verdict") == Verdict.VIOLATED for record in records)
    if broken:
        detail = f"{broken} of {counted(len(records), 'record')} say VIOLATED. Look into them before anything else."
        headline = Headline("violated", "A record says that a promise was broken", detail)
    else:
        verdicts = Counter(str(record["verdict"]) for record in records if record.get("verdict") is not None)
        said = ", ".join(f"{count} say {verdict}" for verdict, count in sorted(verdicts.items()))
        detail = f"{counted(len(records), 'record')}, shown below as the run wrote them{': ' + said if said else ''}."
        headline = Headline(MEASURED, "Results of an experiment", detail)
    limits = "Anything that the experiment itself does not state: this report does not judge records of this kind."
    return Statement(headline, "The tables below hold what was measured.", "", limits)


def nothing_statement() -> Statement:
    """A run without a readable record."""
    return Statement(
        words.headline(()), words.promise((), (), Setting("", None, "input")), words.confidence(()), "Anything."
    )


def _search_headline(rows: Sequence[Row]) -> Headline:
    counts = verdict_counts(rows)
    total = counted(len(rows), "search") if len(rows) == 1 else f"{len(rows)} searches"
    if counts[Verdict.VIOLATED]:
        detail = (
            f"In {counts[Verdict.VIOLATED]} of {total} tokens were found that amplify more than is proved possible. "
            "The bound, or the code that computed it, is wrong: do not rely on these numbers."
        )
        return Headline("violated", "A bound was broken", detail)
    if counts[Verdict.UNKNOWN]:
        detail = f"{counts[Verdict.UNKNOWN]} of {total} ended without a finite number, or within rounding."
        return Headline("unknown", "Not every bound could be computed", detail)
    closest = percent(largest(row.tightness for row in rows))
    detail = f"{total} for the worst tokens. The steepest ones found reach {closest} of what the bounds allow."
    return Headline("holds", "No bound was broken", detail)


def _search_promise(rows: Sequence[Row], radii: Sequence[float]) -> str:
    if any(row.verdict is Verdict.VIOLATED for row in rows):
        return "Nothing is promised: a bound that a search has broken does not bound."
    amounts = [f"{at_most(layer.certified)} in layer {layer.layer}" for layer in by_layer(rows) if layer.certified]
    if not amounts:
        return "No finite bound was computed, so nothing is promised."
    lengths = sorted({row.tokens for row in rows if row.tokens is not None})
    tokens = counted(lengths[0], "token") if len(lengths) == 1 else "tokens"
    return (
        f"Whatever {tokens} of norm at most {_span(radii)} enter, and however they change within that ball, the output "
        "changes by at most a fixed multiple of the change (norms over all tokens, weighted by their masses): "
        f"{_listed(amounts)}."
    )


def _span(values: Sequence[float]) -> str:
    if not values:
        return "the radius of the search"
    low, high = plain(min(values)), plain(max(values))
    return low if low == high else f"{low} to {high} (by layer)"


def _listed(amounts: Sequence[str]) -> str:
    return ", ".join(amounts) if len(amounts) <= 4 else f"{', '.join(amounts[:3])}, and so on in the table below"


def _constant_promise(constants: Sequence[Constant]) -> str:
    layers: dict[int | None, list[float | None]] = {}
    for constant in constants:
        layers.setdefault(constant.layer, []).append(constant.upper)
    amounts = [f"{at_most(largest(v))} in layer {layer}" for layer, v in layers.items() if None not in v]
    if not amounts:
        return "No finite upper limit was computed, so nothing is promised."
    missing = [str(layer) for layer, v in layers.items() if None in v]
    except_for = f" Nothing is promised for layer {', '.join(missing)}." if missing else ""
    return (
        "At the tokens tested, an infinitely small change of the input grows by a factor of at most "
        f"{_listed(amounts)}.{except_for}"
    )


def _constant_confidence(constants: Sequence[Constant]) -> str:
    known = [constant.failure_probability for constant in constants if constant.upper is not None]
    return words.joint_confidence(known, "limit")
