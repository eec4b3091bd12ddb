"""What the numbers mean, in sentences for a person who knows no Lipschitz theory."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.report.numerals import at_least, at_most, percent, plain
from robust_attn.report.rows import LayerRow, Row, largest, verdict_counts
from robust_attn.types import Verdict

SCOPES = {
    "global": "every input in the ball",
    "local": "exactly these tokens, to first order",
    "ball": "these tokens ± budget",
    "measures": "these tokens ± budget, split at will",
}

FAMILIES = {
    "paper": "stated in the paper",
    "sharp": "sharper bound for every input",
    "local": "uses the tokens actually given",
    "ball": "uses the tokens given and the budget around them",
    "hull": "trivial bound: outputs never leave the hull of the values",
    "splitting": "covers tokens that are split into copies",
    "split": "covers tokens that are split into copies",
    "comparator": "shown for comparison, promises nothing here",
}

_BUDGETS = {
    "wasserstein": "moves its {tokens} by at most {radius} in root mean square",
    "frobenius": "moves its {tokens} by at most {radius} in total (Euclidean norm over all of them)",
    "per_token": "moves each of its {tokens} by at most {radius}",
}

_MEASURES = {
    "wasserstein": "root mean square over the tokens",
    "frobenius": "Euclidean norm over all tokens",
    "per_token": "in the norm of the budget",
}

_LIPSCHITZ = (
    "Local Lipschitz",
    "The largest possible gain of an infinitely small perturbation of exactly these tokens.",
)
_PAPER = ("Paper’s bound", "What the bounds of Castin, Ablin and Peyré (ICML 2024) promise for the same question.")
_CHECK_TERMS = (
    ("Gain", "How much further the output moved than the input, in the strongest attack found."),
    _LIPSCHITZ,
    ("Certified", "A proved limit: no perturbation within the budget moves the output further."),
    _PAPER,
    ("Tightness", "What the attack reached as a share of what is certified. At 100 % nothing can be improved."),
    ("HOLDS", "No attack went beyond the certificate, and it says more than the trivial limit does."),
    ("VIOLATED", "The attack went beyond it: something is wrong, and this must be looked into."),
    ("VACUOUS", "The certificate is no better than a limit that holds for any perturbation whatsoever."),
    ("UNKNOWN", "A number was not finite, or rounding could decide, so nothing is promised."),
)
_NORM_TERMS = (
    ("Certified radius", "No perturbation of at most this size moves the output by more than the tolerance asked for."),
    ("R", "The largest norm that a token can have, the budget included."),
    ("|W_O W_V|", "How much a head stretches a value on its way to the output (of a layer: its largest head)."),
    ("|A|", "How strongly two tokens interact in a head’s logits; κ is the largest logit that this allows in R."),
    ("c_n", "How much attention one token can draw from all the others together, at most."),
)
_SEARCH_TERMS = (
    ("Gain", "How much further the output moves than the input, for a small change of the tokens."),
    ("Ball", "All tokens whose Euclidean norm is at most the radius of the search."),
    _PAPER,
    ("HOLDS", "The search found no tokens steeper than the bound allows."),
    ("VIOLATED", "It found some: the bound or the code is wrong, and this must be looked into."),
    ("UNKNOWN", "A number was not finite, or rounding could decide, so nothing is promised."),
)


@dataclass(frozen=True)
class Headline:
    """The verdict on a whole run: a tone for the eye, a title, and what it rests on."""

    tone: str
    title: str
    detail: str


@dataclass(frozen=True)
class Setting:
    """What was perturbed, and by how much, as far as the run says."""

    budget: str
    radius: float | None
    noun: str


def headline(rows: Sequence[Row]) -> Headline:
    """One title for the run; the worst verdict decides it."""
    counts = verdict_counts(rows)
    total = len(rows)
    if not rows:
        return Headline("unknown", "Nothing was measured", "The run holds no readable record, so it promises nothing.")
    if counts[Verdict.VIOLATED]:
        return Headline(
            "violated",
            "A promise was broken",
            f"In {counts[Verdict.VIOLATED]} of {counted(total, 'check')} the output moved further than certified. "
            "The certificate, or the code that computed it, is wrong: do not rely on these numbers.",
        )
    if counts[Verdict.UNKNOWN]:
        return Headline(
            "unknown",
            "Not every promise could be computed",
            f"{counts[Verdict.UNKNOWN]} of {counted(total, 'check')} have no finite number, or one that rounding could "
            "decide, and promise nothing.",
        )
    if counts[Verdict.VACUOUS]:
        return Headline(
            "vacuous",
            "No promise was broken, but some say nothing new",
            f"{counts[Verdict.VACUOUS]} of {counted(total, 'check')} promise no more than the trivial bound, "
            "which holds whatever the perturbation does.",
        )
    return _all_hold(rows)


def _all_hold(rows: Sequence[Row]) -> Headline:
    attacked = [row for row in rows if row.attacked]
    if not attacked:
        detail = f"{counted(len(rows), 'promise')} computed. No attack was run against them here."
        return Headline("holds", "Every layer is certified", detail)
    closest = largest(row.tightness for row in attacked)
    reach = f" The strongest attack reached {percent(closest)} of what is promised." if closest is not None else ""
    return Headline(
        "holds", "Every promise held", f"{counted(len(attacked), 'attack')} tried, no promise broken.{reach}"
    )


def promise(rows: Sequence[Row], layers: Sequence[LayerRow], setting: Setting) -> str:
    """What is promised, for which inputs: the sentence that the whole report supports."""
    known = [layer for layer in layers if layer.certified is not None]
    if any(row.verdict is Verdict.VIOLATED for row in rows):
        return "Nothing is promised: a certificate that an attack has broken does not certify."
    if not known:
        return "No finite certificate was computed, so nothing is promised."
    samples = len({row.sample for row in rows})
    inputs = f"For the {setting.noun} tested" if samples == 1 else f"For each of the {samples} {setting.noun}s tested"
    how = _BUDGETS.get(setting.budget, "stays within the budget of {radius} on its {tokens}")
    perturbation = how.format(tokens=_tokens(rows), radius=plain(setting.radius))
    missing = [str(layer.layer) for layer in layers if layer.certified is None]
    except_for = f" Nothing is promised for layer {', '.join(missing)}." if missing else ""
    return f"{inputs}, any perturbation that {perturbation}{_copies(rows)} {_effect(known, setting)}{except_for}"


def _tokens(rows: Sequence[Row]) -> str:
    lengths = sorted({row.tokens for row in rows if row.tokens is not None})
    if not lengths:
        return "tokens"
    if len(lengths) == 1:
        return counted(lengths[0], "token")
    return f"{lengths[0]} to {lengths[-1]} tokens"


def _copies(rows: Sequence[Row]) -> str:
    copies = max((row.copies for row in rows if row.copies is not None), default=1)
    if copies <= 1:
        return ""
    return f", the tokens split as in this attack (into up to {copies} copies, with the masses that it gave them),"


def _effect(known: Sequence[LayerRow], setting: Setting) -> str:
    measure = _MEASURES.get(setting.budget, "in the norm of the budget")
    if len(known) == 1:
        only = known[0]
        return f"changes the output of layer {only.layer} by at most {at_most(only.certified)} ({measure})."
    low = min(known, key=lambda layer: layer.certified or 0.0)
    high = max(known, key=lambda layer: layer.certified or 0.0)
    return (
        f"changes the output of each attention layer by at most the amount listed for it: from "
        f"{at_most(low.certified)} in layer {low.layer} to {at_most(high.certified)} in layer {high.layer} ({measure})."
    )


def confidence(rows: Sequence[Row]) -> str:
    """With which confidence the promises hold, all of them together."""
    return joint_confidence([row.failure_probability for row in rows if row.certified is not None], "promise")


def joint_confidence(chances: Sequence[float | None], noun: str) -> str:
    """That none of several statements is wrong, each of which may fail with a probability of its own."""
    if not chances:
        return "There is nothing to be confident about."
    if any(chance is None for chance in chances):
        return f"For some {noun}s the probability of being wrong was not recorded, so no confidence can be stated."
    total = math.fsum(chance for chance in chances if chance is not None)
    if total == 0:
        return f"No chance is involved: every step of every {noun} is deterministic."
    if total >= 1:
        return f"The stated failure probabilities add up to one or more: together the {noun}s carry no confidence."
    which = f"the {noun}" if len(chances) == 1 else f"even one of the {len(chances)} {noun}s"
    return (
        f"Part of the computation draws random numbers, which whoever chose the weights and the inputs must not have "
        f"known. The probability that {which} is wrong for that reason is {odds(total)} ({at_most(total, 2)})."
    )


def odds(probability: float) -> str:
    """A probability as "at most 1 in 20 million", never smaller than it is."""
    if probability >= 0.1:
        return f"at most {math.ceil(probability * 100)} in 100"
    inverse = 1 / probability * (1 + 1e-12)  # 1e-9 is one in a billion, whatever the last bit of the quotient says
    if inverse >= 1e15:
        return "at most 1 in 10¹⁵"
    for size, name in ((1e12, " trillion"), (1e9, " billion"), (1e6, " million"), (1e3, " thousand")):
        if inverse >= size:
            return f"at most 1 in {at_least(inverse / size, 2).removesuffix('.0')}{name}"
    return f"at most 1 in {at_least(inverse, 2)}"


def terms(*, checks: bool, searches: bool, constants: bool, norms: bool = False) -> tuple[tuple[str, str], ...]:
    """The words that a report with such records uses, each explained once."""
    used = (
        *(_CHECK_TERMS if checks else ()),
        *(_NORM_TERMS if norms else ()),
        *(_SEARCH_TERMS if searches else ()),
        *((_LIPSCHITZ,) if constants else ()),
    )
    return tuple({term: (term, meaning) for term, meaning in reversed(used)}.values())[::-1]


def family(name: str) -> str:
    """What kind of bound carries this name."""
    kinds = (name.rsplit(".", 1)[-1], name.split(".", 1)[0])
    return next((FAMILIES[kind] for kind in kinds if kind in FAMILIES), "")


def scope(name: str) -> str:
    """For which inputs a bound of that scope speaks."""
    return SCOPES.get(name, name or "not stated")


def counted(count: int, noun: str) -> str:
    """A number with its noun in the right number."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def duration(seconds: float | None) -> str:
    """A time span as a person says it."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{plain(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"
