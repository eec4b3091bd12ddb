"""The parts that records of several kinds share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from robust_attn.records.entry import Entry, fact
from robust_attn.types import Covers, Scope, Side


@dataclass(frozen=True, kw_only=True)
class BudgetPart(Entry):
    """How far an attack may go."""

    kind: str = fact("wasserstein (rms displacement of a token), frobenius (all tokens together) or per_token")
    radius: float | None = fact("the largest size of a perturbation", None)
    support: float | None = fact("the largest norm that a perturbed token may have; null if there is no limit", None)


@dataclass(frozen=True, kw_only=True)
class Observed(Entry):
    """What a perturbation did to the output of a layer; null where nothing was attacked."""

    input_change: float | None = fact("size of the perturbation, in the norm of the budget", None)
    output_change: float | None = fact("size of the change of the output, in the same norm", None)
    gain: float | None = fact("output_change / input_change", None)
    w2_input: float | None = fact("exact W2 distance of the inputs", None)
    w2_output: float | None = fact("exact W2 distance of the outputs", None)
    w2_gain: float | None = fact("w2_output / w2_input", None)
    rounding: float | None = fact("what float arithmetic may have added to output_change, or taken from it", None)


@dataclass(frozen=True, kw_only=True)
class Scale(Entry):
    """How large the unperturbed tokens and the output are, in the norm of the budget: what changes compare with."""

    tokens: float | None = fact("norm of the tokens that are perturbed", None)
    output: float | None = fact("norm of the output of the layer; null for a whole model", None)


@dataclass(frozen=True, kw_only=True)
class Constant(Entry):
    """A Lipschitz constant from both sides."""

    lower: float | None = fact("a value that is attained", None)
    upper: float | None = fact("a value that is not exceeded, but for failure_probability", None)
    failure_probability: float | None = fact("the chance, over the drawn start, that upper is wrong", None)
    steps: int | None = fact("Lanczos steps spent", None)
    converged: bool | None = fact("whether the iteration had settled", None)
    seed: int | None = fact("the seed of the drawn start: certificate.seed=... repeats it", None)


@dataclass(frozen=True, kw_only=True)
class BoundPart(Entry):
    """One theorem's answer."""

    name: str = fact("as in docs/theorems.md")
    side: Side = fact("upper or lower", Side.UPPER)
    log10: float | None = fact("logarithm of the bound as a Lipschitz constant: some exceed every float", None)
    output_change: float | None = fact("as an output change within the budget; of scope local to first order", None)
    scope: Scope = fact("for which inputs it speaks: global, local, ball, measures or pieces", Scope.GLOBAL)
    applies: bool = fact("whether it bounds the output change here; a constant at the tokens (local) never does", True)
    why_not: str | None = fact("which assumption does not", None)
    failure_probability: float | None = fact("the chance that it is wrong", 0.0)
    comparator: bool = fact("shown for comparison: it promises nothing here", False)

    @property
    def certifies(self) -> bool:
        """Whether it could be a promise: an upper bound on a whole ball whose assumptions hold."""
        return self.applies and self.side is Side.UPPER and not self.comparator and self.scope is not Scope.LOCAL

    @property
    def at_tokens(self) -> bool:
        """Whether it is a constant at the tokens, known and shown apart: it bounds nothing within a budget."""
        return self.scope is Scope.LOCAL and self.log10 is not None


@dataclass(frozen=True, kw_only=True)
class Certified(Entry):
    """What is promised: the smallest bound that applies."""

    bound: str | None = fact("the name of that bound; null where nothing is promised", None)
    output_change: float | None = fact("the output changes by no more than this", None)
    constant: float | None = fact("of a search in a ball: the output changes by no more than this per unit", None)
    failure_probability: float | None = fact("the chance that the promise is wrong", None)
    covers: Covers | None = fact("against which perturbations it holds", None)
    context: float | None = fact("of covers context: no piece of a token is lighter than 1 / context", None)

    @property
    def promise(self) -> float | None:
        """The number that is promised: a constant in a ball, else an output change."""
        return self.output_change if self.constant is None else self.constant


@dataclass(frozen=True, kw_only=True)
class RadiusPart(Entry):
    """The radius up to which the output changes by no more than a tolerance."""

    tolerance: float | None = fact("the change that is accepted", None)
    radius: float | None = fact("the certified radius; null where it is not known or unbounded", None)
    bound: str | None = fact("the bound that gives it", None)
    unbounded: bool = fact("whether every radius will do", False)
    failure_probability: float | None = fact("the chance that it is wrong", None)


@dataclass(frozen=True, kw_only=True)
class Norms(Entry):
    """What bounds on a whole ball are made of; of several heads the largest."""

    radius: float | None = fact("R, the largest norm of a token with the reach of the budget", None)
    value: float | None = fact("|W_O W_V|", None)
    interaction: float | None = fact("|A|", None)
    kappa: float | None = fact("the largest logit that this allows", None)
    mixing: float | None = fact("c_n, the attention that one token can draw", None)


@dataclass(frozen=True, kw_only=True)
class Hygiene(Entry):
    """What an attack must not stay below: output changes of other displacements in its budget."""

    random: float | None = fact("the best of a few random displacements", None)
    half: float | None = fact("half of the displacement found", None)


@dataclass(frozen=True, kw_only=True)
class Motion(Entry):
    """How far each token went, in order, to four digits."""

    rms: tuple[float | None, ...] = fact("root mean square distance of its mass")
    apart: tuple[float | None, ...] = fact("how much of that is its pieces leaving their common mean")
    farthest: tuple[float | None, ...] = fact("how far its farthest piece went")
    share: tuple[float | None, ...] = fact("which share of the token that piece is")
    parts: tuple[int, ...] = fact("as how many atoms it was written")

    @property
    def whole(self) -> bool:
        """Whether every token has all of its numbers."""
        lists = (self.rms, self.apart, self.farthest, self.share, self.parts)
        return len({len(values) for values in lists}) == 1 and not any(None in values for values in lists)


@dataclass(frozen=True, kw_only=True)
class Attacked(Entry):
    """A prediction under attack within the budget."""

    predicted: int = fact("the class that the model gives to the perturbed input")
    margin: float | None = fact("logit of the clean prediction minus the largest other one", None)
    flipped: bool = fact("whether the class is another one")


@dataclass(frozen=True, kw_only=True)
class FlipSearch(Entry):
    """How a flip radius was looked for."""

    accuracy: float | None = fact("relative width of the last interval", None)
    radii_tried: int = fact("how many radii", 0)
    gradients: int = fact("gradients that moving all tokens and one word took", 0)
    smallest_mass: float | None = fact("the lightest atom of the smallest flip found by splitting", None)
    words: int = fact("tokens that were tried alone", 0)
    word: int | None = fact("the token whose own motion flips the prediction first, from 0", None)
    motion: Motion | None = fact("how far every token went in the smallest flip by moving all of them", None)


@dataclass(frozen=True, kw_only=True)
class TypedFlip(Entry):
    """A flip by edits that a person could type: tokens repeated, inserted, swapped, each text really read."""

    edits: int | None = fact("how many edits flip the prediction; null where none was found", None)
    what: tuple[str, ...] = fact("the edits, in order", ())
    text: str | None = fact("the text that flips it", None)
    reads: int = fact("texts that were read", 0)
    most_edits: int = fact("edits tried at most, one after another", 0)


@dataclass(frozen=True, kw_only=True)
class Proof(Entry):
    """How the certified radius of a prediction was computed."""

    seconds: float | None = fact("time taken", None)
    samples: int | None = fact("Gaussian samples; null where nothing was drawn", None)
    seed: int | None = fact("what they were drawn from: certificate.seed=... repeats it", None)
    words: int | None = fact("tokens that the radius of one word speaks of; null where none was asked for", None)
    shares: Mapping[str, float | None] = fact("per step what its remainders take off the margin, of one word", {})
    why_not: str | None = fact("why nothing is certified", None)


@dataclass(frozen=True, kw_only=True)
class SmoothedPart(Entry):
    """Randomised smoothing (Cohen, Rosenfeld, Kolter 2019): a statement about the smoothed classifier, not this one."""

    label: int | None = fact("the class of the smoothed classifier; null where it abstains", None)
    sigma: float | None = fact("standard deviation of the noise on every coordinate")
    samples: int = fact("noisy inputs that were read for the bound")
    failure_probability: float | None = fact("the chance that its radius is wrong")


@dataclass(frozen=True, kw_only=True)
class Distances(Entry):
    """W2 of what arrives at a layer and of what leaves it, between a clean and a perturbed text."""

    w2_input: float | None = fact("W2 of the inputs", None)
    w2_output: float | None = fact("W2 of the outputs", None)


@dataclass(frozen=True, kw_only=True)
class Continuous(Distances):
    """A continuous attack with the W2 distance of a typed text, at the same layer."""

    attack: str = fact("the name of the attack")
    loss: float | None = fact("cross-entropy of the clean prediction", None)
    flipped: bool = fact("whether it flips the prediction")


@dataclass(frozen=True, kw_only=True)
class Typed(Entry):
    """A clean text, the typed one, and the relaxation in which masses are free."""

    clean: float | None = fact("of the clean text", None)
    typed: float | None = fact("of the text with repetitions", None)
    free: float | None = fact("with as many free repetitions", None)


@dataclass(frozen=True, kw_only=True)
class Approach(Entry):
    """How near an observation came to a bound."""

    approach: float | None = fact("observed over allowed: 1 would be exact, null is above a bound of zero", None)
    seed: int = fact("the case in which it did")


@dataclass(frozen=True, kw_only=True)
class Findings(Entry):
    """What the cases of a soundness campaign amount to."""

    cases: int = fact("cases done")
    comparisons: int = fact("promises compared with what was observed")
    exact: int = fact("of these, decided by exact arithmetic", 0)
    violations: int = fact("bounds that an observation exceeded")
    unknown_cases: int = fact("cases about which nothing can be said")
    seconds: float | None = fact("time taken")
    cases_per_minute: float | None = fact("cases in a minute", None)
    last_seed: int = fact("the seed of the last layer: the next campaign begins after it")
    models: int = fact("how many of the cases are whole models", 0)
    last_model: int = fact("the seed of the last whole model, from a stream of their own; -1 before the first", -1)
    unknown: Mapping[str, int] = fact("how often each reason to know nothing was given")
    drawn: Mapping[str, Mapping[str, int]] = fact("per field of a case how often each of its values was drawn")
    closest: Mapping[str, Approach] = fact("per bound the nearest that an observation came to it")
