"""Every kind of record. What a record is about stands first; `kind` says which class it is, nothing else does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar, final

from robust_attn.records.entry import Entry, Json, NotARecordError, fact
from robust_attn.records.parts import (
    Attacked,
    BoundPart,
    BudgetPart,
    Certified,
    Constant,
    Continuous,
    Distances,
    Findings,
    FlipSearch,
    Hygiene,
    Motion,
    Norms,
    Observed,
    Proof,
    RadiusPart,
    Scale,
    SmoothedPart,
    Typed,
    TypedFlip,
)
from robust_attn.types import Verdict

SCHEMA = 2
SomeRecord = TypeVar("SomeRecord", bound="Record")
KINDS: dict[str, type[Record]] = {}
"""Every kind by its name; a class that is derived from Record and has a kind is one of them."""


@dataclass(frozen=True, kw_only=True)
class Record(Entry):
    """The fields that every record starts with."""

    kind: ClassVar[str] = ""
    model: str = fact("the model's name")
    weights: str = fact("where the weights come from")
    layer: int | None = fact("number of the attention layer, from 0; null for the model as a whole", None)
    head: int | None = fact("number of the head, from 0; null for the whole layer", None)
    sample: int = fact("number of the sample, from 0", 0)
    row: int | None = fact("number of its row in the data, from 0; null where the data have no rows", None)
    label: int | str | None = fact("its label in the data, the number of the class that it names", None)
    tokens: int = fact("number of tokens", 0)
    cut: int | None = fact("tokens that its row had beyond that, cut off at the end; null without rows of text", None)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.__dict__.get("kind"):
            KINDS[cls.kind] = cls

    def to_json(self) -> Json:
        """Plain values, with the schema and the kind in front."""
        return {"schema": SCHEMA, "kind": self.kind, **super().to_json()}

    @property
    def named(self) -> str:
        """The sample by the row of the data that it is, by its own number where there are no rows."""
        return f"sample {self.sample}" if self.row is None else f"row {self.row}"

    @property
    def stated(self) -> Verdict | None:
        """The verdict that the record states; None where its kind has none."""
        verdict: Verdict | None = getattr(self, "verdict", None)
        return verdict

    @property
    def judged(self) -> Verdict | None:
        """The verdict that counts for the run."""
        return self.stated

    @property
    def unknown_constant(self) -> bool:
        """Whether the record is about a constant that turned out not to be a number."""
        return False


def of_kind(records: Iterable[Record], *kinds: type[SomeRecord]) -> list[SomeRecord]:
    """Those of the records that are of one of these kinds."""
    return [record for record in records if isinstance(record, kinds)]


def record_from(values: object) -> Record:
    """The record that a line of JSON holds, by the kind that it names."""
    if not isinstance(values, Mapping):
        raise NotARecordError(f"a record must be an object, got {values!r:.40}")
    kind = values.get("kind")
    if kind not in KINDS:
        raise NotARecordError(f"there is no kind of record {kind!r:.40}")
    return KINDS[kind].from_json(values)


@dataclass(frozen=True, kw_only=True)
class Check(Record):
    """A promise about the output of a layer within a budget, beside what was observed."""

    copies: int = fact("atoms per token in the measure that was attacked", 1)
    attack: str = fact("the attack's name; none where nothing was attacked", "none")
    budget: BudgetPart = fact("how far the attack might go")
    scale: Scale = fact("how large the tokens and the output are; nulls in runs before this was recorded", Scale())
    observed: Observed = fact("what it did", Observed())
    lipschitz: Constant = fact("the local Lipschitz constant of the layer at these tokens", Constant())
    bounds: tuple[BoundPart, ...] = fact("every bound", ())
    certified: Certified = fact("the promise")
    tightness: float | None = fact("observed.output_change / certified.output_change", None)
    verdict: Verdict = fact("HOLDS, VIOLATED, VACUOUS (no better than the hull bound) or UNKNOWN")
    convergence: tuple[float | None, ...] = fact("the output change after every step of the attack", ())

    @property
    def attacked(self) -> bool:
        """Whether there was an attack at all."""
        return self.attack != "none"

    def bound(self, name: str | None) -> BoundPart | None:
        """The bound of that name, if there is one."""
        return next((bound for bound in self.bounds if bound.name == name), None)


@final
@dataclass(frozen=True, kw_only=True)
class AttackRecord(Check):
    """An attack on one layer and sample."""

    kind: ClassVar[str] = "attack"
    gradients: int = fact("gradients of the layer that the attack took", 0)
    lightest_mass: float | None = fact("the smallest mass of an atom", None)
    in_context: Certified | None = fact("what is promised against all splits that the attack's context allows", None)
    hygiene: Hygiene = fact("what the attack is compared with", Hygiene())
    motion: Motion | None = fact("how far every token went; null for very long samples", None)


@final
@dataclass(frozen=True, kw_only=True)
class CertifyRecord(Check):
    """A certificate of a layer, or of one head, without an attack."""

    kind: ClassVar[str] = "certify"
    norms: Norms = fact("what global bounds are made of", Norms())
    certified_radius: RadiusPart | None = fact("the radius that keeps a tolerance; null if none was asked for", None)


@final
@dataclass(frozen=True, kw_only=True)
class TightnessRecord(Check):
    """A certificate at one of several radii around the same tokens."""

    kind: ClassVar[str] = "tightness"


@final
@dataclass(frozen=True, kw_only=True)
class ContextRecord(Check):
    """An attack in one of several contexts, and what is promised against all splits there."""

    kind: ClassVar[str] = "context"
    context: float | None = fact("no piece of a token is lighter than 1 / context", None)
    lightest_mass: float | None = fact("the smallest mass of an atom", None)


@final
@dataclass(frozen=True, kw_only=True)
class LayerRecord(Check):
    """One layer while a whole model is attacked: `budget` is the change that arrives there."""

    kind: ClassVar[str] = "layer"
    agreement: float | None = fact("relative difference between the layer alone and in the model", None)
    smallest_mass: float | None = fact("the lightest atom of the perturbed input", None)
    input_budget: BudgetPart = fact("the budget at the input of the model")


@final
@dataclass(frozen=True, kw_only=True)
class ConstantRecord(Record):
    """The local Lipschitz constant of a layer at the tokens of one sample."""

    kind: ClassVar[str] = "lipschitz"
    mask: str = fact("none or causal")
    radius: float | None = fact("the largest norm of a token", None)
    scaled_to: float | None = fact("the norm that the largest token was scaled to; null where none was", None)
    lipschitz: Constant = fact("the constant")
    released: float | None = fact("what the paper's released code calls the constant", None)

    @property
    def unknown_constant(self) -> bool:
        """An estimate was made, and its upper value is no number."""
        return self.lipschitz.failure_probability is not None and self.lipschitz.upper is None


@dataclass(frozen=True, kw_only=True)
class BallRecord(Record):
    """A Lipschitz constant attained in a ball of tokens, beside the bounds of that ball."""

    radius: float | None = fact("of the ball", None)
    masses: tuple[float | None, ...] | None = fact("of the atoms, largest first, where they were searched for", None)
    lipschitz: Constant = fact("lower: attained; upper: the smallest bound")
    bounds: tuple[BoundPart, ...] = fact("every bound of the ball", ())
    certified: Certified = fact("the smallest one that applies")
    tightness: float | None = fact("attained / smallest bound", None)
    verdict: Verdict = fact("VIOLATED above an upper or below a lower bound")
    convergence: tuple[float | None, ...] = fact("the constant after every step of the search", ())


@final
@dataclass(frozen=True, kw_only=True)
class SearchRecord(BallRecord):
    """The steepest tokens that a search found at a layer."""

    kind: ClassVar[str] = "worst_case"


@final
@dataclass(frozen=True, kw_only=True)
class StudyRecord(BallRecord):
    """A configuration of tokens at one head, or at a layer, in a study of the paper's bounds."""

    kind: ClassVar[str] = "study"
    study: str = fact("the task's name")
    configuration: str = fact("how the tokens were chosen")
    mask: str = fact("none or causal")
    special_mass: float | None = fact("the mass of the special token", None)
    points: tuple[tuple[float | None, ...], ...] | None = fact("where the atoms are, in the order of masses", None)


@final
@dataclass(frozen=True, kw_only=True)
class SplittingRecord(Record):
    """One point of the examples in which splitting beats moving."""

    kind: ClassVar[str] = "splitting"
    series: str = fact("balance (of two masses) or sliver (of a small one)")
    mass: float | None = fact("the mass that is varied")
    move: float | None = fact("the local constant of moving", None)
    split: float | None = fact("the local constant of splitting", None)
    observed: Observed = fact("what the sliver did", Observed())


@final
@dataclass(frozen=True, kw_only=True)
class PredictionRecord(Record):
    """The prediction of a whole classifier for one input."""

    kind: ClassVar[str] = "prediction"
    predicted: int = fact("the class that the model gives to the clean input")
    margin: float | None = fact("logit of that class minus the largest other one", None)
    budget: BudgetPart = fact("the norm of all radii, and the radius of the attack")
    scale: Scale = fact("how large the embedded tokens are; nulls in runs before this was recorded", Scale())
    attack: str = fact("the attack within the budget")
    copies: int = fact("atoms per token in what it found", 1)
    smallest_mass: float | None = fact("the lightest atom of what it found", None)
    attacked: Attacked | None = fact("what it did to the prediction", None)
    flip_radius: Mapping[str, float | None] = fact("per way to attack the smallest radius that flips the prediction")
    flip: FlipSearch = fact("how that was looked for", FlipSearch())
    typed: TypedFlip | None = fact("the flip by typing, which has no radius; null where none was looked for", None)
    certified_radius: Mapping[str, float | None] = fact("per certificate the radius within which nothing flips it")
    failure_probability: float | None = fact("the chance that a certified radius is wrong, but for smoothing", None)
    shares: Mapping[str, float | None] = fact("per step what it takes off the margin at certified_radius.all", {})
    proof: Proof | None = fact("how certified radii were computed; null where none was asked for", None)
    smoothed: SmoothedPart | None = fact("what certified_radius.smoothing speaks of; null where not computed", None)
    verdict: Verdict | None = fact(
        "HOLDS, VIOLATED where a move is nearer than certified, UNKNOWN without the certificate asked for", None
    )
    seconds: float | None = fact("time taken by this sample", None)
    text: str | None = fact("the text, null for images", None)
    spelled: tuple[str, ...] | None = fact("its tokens in words; null for images", None)

    @property
    def judged(self) -> Verdict | None:
        """Its verdict; a prediction that nothing could be certified about fails no run, unless it has no margin."""
        return None if self.verdict is Verdict.UNKNOWN and self.margin is not None else self.verdict

    @property
    def smallest_flip(self) -> float | None:
        """The smallest radius at which any attack flipped the prediction."""
        return min((radius for radius in self.flip_radius.values() if radius is not None), default=None)


@final
@dataclass(frozen=True, kw_only=True)
class RepeatRecord(Record):
    """A text with one more token repeated."""

    kind: ClassVar[str] = "repeat"
    repeats: int = fact("repetitions so far")
    token: str | None = fact("the token that was repeated", None)
    place: int = fact("where it stands")
    gradient_rank: int = fact("its rank by gradient among the candidates, from 0")
    w2_embeddings: float | None = fact("W2 distance of the embeddings from those of the clean text", None)
    prediction: Mapping[str, int] = fact("classes of the clean text, the typed one and the relaxation")
    loss: Typed = fact("cross-entropy of the clean prediction")
    flipped: bool = fact("whether the typed text has another class")
    text: str | None = fact("the typed text", None)


@final
@dataclass(frozen=True, kw_only=True)
class RepeatLayerRecord(Record):
    """One layer while a text with repeated tokens is read."""

    kind: ClassVar[str] = "repeat_layer"
    repeats: int = fact("repetitions in the text")
    w2_embeddings: float | None = fact("W2 distance of its embeddings from those of the clean text", None)
    typed: Distances = fact("what the typed text does")
    certified: Certified = fact("what any measure at that distance can do at most")
    verdict: Verdict = fact("whether that holds")
    bounds: tuple[BoundPart, ...] = fact("every bound", ())
    continuous: Continuous = fact("what a continuous attack does at the same distance of the embeddings")


@final
@dataclass(frozen=True, kw_only=True)
class CaseRecord(Record):
    """One case of a soundness campaign."""

    kind: ClassVar[str] = "soundness"
    seed: int = fact("the case is drawn from it")
    verdict: Verdict = fact("VIOLATED where an observation exceeds a promise")
    attack: str = fact("the attack")
    budget: BudgetPart = fact("its budget")
    comparisons: int = fact("promises compared")
    exact: int = fact("of these, decided by exact arithmetic", 0)
    violated: tuple[str, ...] = fact("the bounds that were exceeded", ())
    unknown: tuple[str, ...] = fact("why nothing can be said", ())
    expected: bool = fact("whether UNKNOWN is a right answer for such a case", False)
    seconds: float | None = fact("time taken", None)
    closest: Mapping[str, float | None] = fact("per bound observed over allowed")
    case: Mapping[str, Any] = fact("all that the case is made of")

    @property
    def judged(self) -> Verdict | None:
        """Its verdict, unless it was bound to be UNKNOWN."""
        return None if self.expected else self.verdict


@final
@dataclass(frozen=True, kw_only=True)
class CarriedRecord(Record):
    """What an earlier campaign found, as the first record of the one that continues it."""

    kind: ClassVar[str] = "campaign"
    continues: str = fact("the folder of the earlier campaign")
    verdict: Verdict = fact("the worst of its verdicts")
    carried: Findings = fact("what it found")
