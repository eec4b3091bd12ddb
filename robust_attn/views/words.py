"""Words for numbers, bounds, budgets and chances, for a person who knows no Lipschitz theory."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from robust_attn.records.kinds import Record
from robust_attn.records.parts import BudgetPart
from robust_attn.records.quantities import place_of as place_of  # noqa: PLC0414
from robust_attn.types import Covers, Scope, Verdict
from robust_attn.types import counted as counted  # noqa: PLC0414
from robust_attn.views.numerals import at_least, at_most, plain

SCOPES = {
    Scope.GLOBAL: "every input in the ball",
    Scope.LOCAL: "exactly these tokens, to first order",
    Scope.BALL: "these tokens, moved within the budget",
    Scope.MEASURES: "these tokens, moved within the budget and split at will",
    Scope.PIECES: "these tokens, moved within the budget and split into pieces that the context allows",
}
PIECES_OF_TOKENS = "these pieces of tokens, moved within the budget"
"""What bounds around given atoms speak of where tokens were split."""
COVERS = {
    Covers.ATOMS: "these tokens moved, none split",
    Covers.COPIES: "these tokens moved, split as the attack did",
    Covers.CONTEXT: "these tokens moved and split, no piece lighter than the context allows",
    Covers.MEASURES: "these tokens moved and split at will",
    Covers.INPUTS: "any tokens in the ball",
}
FAMILIES = {
    "paper": "stated in the paper",
    "sharp": "sharper bound for every input",
    "local": "uses the tokens actually given",
    "ball": "uses the tokens given and the budget around them",
    "hull": "trivial bound: outputs never leave the hull of the values",
    "splitting": "covers tokens that are split into copies",
    "split": "covers tokens that are split into copies",
    "context": "covers tokens that are split, no piece lighter than one token of the context",
    "comparator": "shown for comparison, promises nothing here",
}
_BUDGETS = {
    "wasserstein": "moves {tokens} by at most {radius} in root mean square",
    "frobenius": "moves {tokens} by at most {radius} in total (Euclidean norm over all of them)",
    "per_token": "moves each of {tokens} by at most {radius}",
}
_NORMS = {
    "wasserstein": "root mean square over the tokens",
    "frobenius": "Euclidean norm over all tokens",
    "per_token": "largest over the tokens",
}
GAIN = ("Gain", "How much further the output moved than the input, in the strongest attack found.")
LIPSCHITZ = (
    "Local constant",
    "The local Lipschitz constant: the largest possible gain of an infinitely small perturbation of exactly these "
    "tokens. Of two numbers the first is attained, the second is not exceeded.",
)
PAPER = ("Paper’s bound", "What the bounds of Castin, Ablin and Peyré (ICML 2024) promise for the same question.")
TIGHTNESS = ("Tightness", "What was reached as a share of what is promised. At 100 % nothing can be improved.")
UNKNOWN = ("UNKNOWN", "A number was not finite, or rounding could decide, so nothing is promised.")
VERDICTS = (
    ("HOLDS", "No attack went beyond the certificate, and it says more than the trivial limit does."),
    ("VIOLATED", "The attack went beyond it: something is wrong, and this must be looked into."),
    ("VACUOUS", "The certificate is no better than a limit that holds for any perturbation at all."),
    UNKNOWN,
)


def budget_words(budget: BudgetPart, radius: float | None, tokens: str) -> str:
    """What a perturbation within a budget does to the tokens."""
    how = _BUDGETS.get(budget.kind, "stays within the budget of {radius} on {tokens}")
    return how.format(tokens=tokens, radius=plain(radius))


def norm_words(budget: BudgetPart) -> str:
    """In which norm the budget measures."""
    return _NORMS.get(budget.kind, "in the norm of the budget")


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


def family(name: str) -> str:
    """What kind of bound carries this name."""
    kinds = (name.rsplit(".", 1)[-1], name.split(".", 1)[0])
    return next((FAMILIES[kind] for kind in kinds if kind in FAMILIES), "")


def share(count: int, total: int, noun: str) -> str:
    """So many of all, as a person says it: "the only check", "both checks", "all 4 checks", "2 of 4 checks"."""
    if count == total:
        every = f"all {counted(total, noun)}"
        return {1: f"the only {noun}", 2: f"both{every.removeprefix('all 2')}"}.get(total, every)
    return f"{count} of {counted(total, noun)}"


def sentence(text: str) -> str:
    """The text with a capital letter at its beginning."""
    return text[:1].upper() + text[1:]


def shortened(text: str, most: int) -> str:
    """At most so many characters of a text."""
    return text if len(text) <= most else text[: most - 1] + "…"


def listed(items: Iterable[object], most: int = 8) -> str:
    """Things in a row; of many the first ones."""
    every = [str(item) for item in items]
    return ", ".join(every[:most]) + (f" and {len(every) - most} more" if len(every) > most else "")


def counted_names(names: Sequence[object], noun: str) -> str:
    """Things by their names, as a person lists them: "layer 3", "layers 0 and 3", "layers 0 to 11"."""
    every = [str(name) for name in names]
    if len(every) == 1:
        return f"{noun} {every[0]}"
    numbers = [name for name in names if isinstance(name, int)]
    if len(every) > 2 and numbers == list(range(numbers[0], numbers[0] + len(every))):
        return f"{noun}s {every[0]} to {every[-1]}"
    shown = every if len(every) <= 8 else [*every[:7], f"{len(every) - 7} more"]
    return f"{noun}s {', '.join(shown[:-1])} and {shown[-1]}"


def span(values: Sequence[float]) -> str:
    """From the smallest to the largest."""
    low, high = plain(min(values)), plain(max(values))
    return low if low == high else f"{low} to {high}"


def part_of(layer: int | None, head: int | None) -> str:
    """A layer, or one head of it."""
    return f"layer {layer}" if head is None else f"layer {layer}, head {head}"


def lengths_of(records: Iterable[Record]) -> str:
    """How many tokens the records speak of."""
    lengths = sorted({record.tokens for record in records if record.tokens})
    if not lengths:
        return "tokens"
    return counted(lengths[0], "token") if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]} tokens"


def nothing_new(count: int, total: int) -> str:
    """That so many promises are no better than the trivial limit."""
    return "none says anything new" if count == total else "some say nothing new"


def duration(seconds: float | None) -> str:
    """A time span as a person says it."""
    if seconds is None:
        return "unknown"
    if seconds < 90:
        return f"{plain(seconds, 2)} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def largest(values: Iterable[float | None]) -> float | None:
    """The largest known value, or None when none is known."""
    return max((value for value in values if value is not None), default=None)


def smallest(values: Iterable[float | None]) -> float | None:
    """The smallest known value, or None when none is known."""
    return min((value for value in values if value is not None), default=None)


def covering(values: Iterable[float | None]) -> float | None:
    """The promise that covers all of them: unknown as soon as one is, and where there is none."""
    every = list(values)
    return None if None in every else largest(every)


def verdict_words(counts: dict[Verdict, int]) -> str:
    """How often each verdict was given."""
    return ", ".join(f"{count} {verdict.value}" for verdict, count in counts.items() if count)
