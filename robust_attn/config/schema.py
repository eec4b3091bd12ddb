"""The schema of every configuration group: what can be set, of which type, with which default."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from omegaconf import MISSING

from robust_attn.experiments.schema import (
    AdversarialLayerTaskSchema,
    AdversarialTaskSchema,
    LipschitzTaskSchema,
    MassSplittingTaskSchema,
    MeanFieldTaskSchema,
    RadiusTaskSchema,
    TightnessTaskSchema,
    UnbalancedTaskSchema,
)


@dataclass
class ModelSchema:
    """`weights` is auto, random, pretrained or a folder; `sizes` are configuration values for random weights.

    `tokenizer` is a folder to take the tokenizer from, null for that of the weights.
    """

    name: str = MISSING
    weights: str = "auto"
    tokenizer: str | None = None
    sizes: Any = None


@dataclass
class ProseSchema:
    """English from the documentation topics that every Python ships."""

    name: str = "prose"


@dataclass
class TextSchema:
    """A UTF-8 text file."""

    path: str = MISSING
    name: str = "text"


@dataclass
class HubSchema:
    """A text column of a Hugging Face data set."""

    dataset: str = "fancyzhx/ag_news"
    split: str = "test"
    column: str = "text"
    name: str = "hub"


@dataclass
class GaussianSchema:
    """Standard normal tokens times `scale`."""

    scale: float = 1.0
    name: str = "gaussian"


@dataclass
class SphereSchema:
    """Tokens uniform on a sphere; without a radius, that of the layer's normalisation."""

    radius: float | None = None
    name: str = "sphere"


@dataclass
class DigitsSchema:
    """The digits that scikit-learn ships, for image models."""

    name: str = "digits"


@dataclass
class ImagesSchema:
    """A folder of images, for image models."""

    path: str = MISSING
    name: str = "images"


@dataclass
class MoveSchema:
    """Projected ascent."""

    steps: int = 80
    restarts: int = 1
    name: str = "move"


@dataclass
class MassSplitSchema:
    """Write tokens as several atoms, then ascend; `tokens` is all or how many, `masses` equal or sliver.

    No sliver is lighter than `lightest`.
    """

    copies: int = 2
    steps: int = 80
    restarts: int = 1
    tokens: Any = "all"
    masses: str = "equal"
    lightest: float = 1e-10
    name: str = "mass_split"


@dataclass
class DuplicateSchema:
    """A token inserted again, up to `repeats` times."""

    repeats: int = 1
    name: str = "duplicate"


@dataclass
class LinearSchema:
    """The top singular direction."""

    name: str = "linear"


@dataclass
class RandomSchema:
    """The best of some random displacements."""

    trials: int = 16
    name: str = "random"


@dataclass
class TorchattacksSchema:
    """An attack of torchattacks by the `name` of its class; `step_size` is its alpha as a part of its eps."""

    name: str = "PGDL2"
    steps: int = 30
    step_size: float = 0.25
    suite: str = "torchattacks"


@dataclass
class NoneSchema:
    """Nothing: no attack, or no tracker."""

    name: str = "none"


@dataclass
class BudgetSchema:
    """The norm, the radius, and the support: auto, tokens, normalization, or the radius of the ball atoms stay in."""

    kind: str = MISSING
    radius: float = 0.01
    support: Any = "auto"


@dataclass
class WandbSchema:
    """Weights & Biases: offline, online or disabled."""

    name: str = "wandb"
    mode: str = "offline"
    project: str = "robust_attn"


@dataclass
class AttackTaskSchema:
    """Attack, certify, report."""

    name: str = "attack"


@dataclass
class CertifyTaskSchema:
    """Certificates of every layer and, with `heads`, of every head; with a tolerance also the radius that keeps it."""

    name: str = "certify"
    heads: bool = True
    tolerance: float | None = None


@dataclass
class WorstCaseTaskSchema:
    """Search for the tokens in a ball with the largest local Lipschitz constant; without a radius, the layer's own.

    With `masses` for the masses of the tokens too.
    """

    name: str = "worst_case"
    radius: float | None = None
    steps: int = 60
    restarts: int = 2
    masses: bool = False


@dataclass
class ThroughModelTaskSchema:
    """Attack a whole classifier, watch every layer, and find the radius of a flip up to a relative `accuracy`."""

    name: str = "through_model"
    accuracy: float = 0.05


@dataclass
class RepeatTokensTaskSchema:
    """Repeat up to `repeats` tokens of a text, each the best of `candidates` that were really read."""

    name: str = "repeat_tokens"
    repeats: int = 4
    candidates: int = 8


@dataclass
class SoundnessTaskSchema:
    """Try to break certificates: `cases` or `minutes` of random layers, from `first_seed` on; one may be null.

    `resume` is the folder of a campaign to go on with, `replay` a saved violation to look at again instead.
    """

    name: str = "soundness"
    cases: int | None = 200
    minutes: float | None = None
    first_seed: int = 0
    resume: str | None = None
    replay: str | None = None


@dataclass
class CertificateSchema:
    """How certificates are computed; without a `seed` the start of a Lanczos value is drawn anew in every run."""

    deterministic: bool = False
    failure_probability: float = 1e-9
    lanczos_steps: int = 64
    seed: int | None = None


@dataclass
class RunSchema:
    """Everything a run is told."""

    task: Any = MISSING
    model: ModelSchema = MISSING
    data: Any = MISSING
    attack: Any = MISSING
    budget: BudgetSchema = MISSING
    tracker: Any = MISSING
    layers: Any = "all"
    tokens: int = 32
    samples: int = 4
    seed: int = 0
    device: str = "auto"
    dtype: str = "float64"
    tolerance: float | None = None
    certificate: CertificateSchema = field(default_factory=CertificateSchema)


SCHEMAS: dict[str, dict[str, type]] = {
    "schema": {"run": RunSchema, "model": ModelSchema, "budget": BudgetSchema},
    "schema/data": {
        "prose": ProseSchema,
        "text": TextSchema,
        "hub": HubSchema,
        "gaussian": GaussianSchema,
        "sphere": SphereSchema,
        "digits": DigitsSchema,
        "images": ImagesSchema,
    },
    "schema/attack": {
        "move": MoveSchema,
        "mass_split": MassSplitSchema,
        "duplicate": DuplicateSchema,
        "linear": LinearSchema,
        "random": RandomSchema,
        "torchattacks": TorchattacksSchema,
        "none": NoneSchema,
    },
    "schema/tracker": {"wandb": WandbSchema, "none": NoneSchema},
    "schema/task": {
        "attack": AttackTaskSchema,
        "certify": CertifyTaskSchema,
        "lipschitz": LipschitzTaskSchema,
        "worst_case": WorstCaseTaskSchema,
        "tightness": TightnessTaskSchema,
        "adversarial_layer": AdversarialLayerTaskSchema,
        "adversarial": AdversarialTaskSchema,
        "radius": RadiusTaskSchema,
        "mean_field": MeanFieldTaskSchema,
        "mass_splitting": MassSplittingTaskSchema,
        "unbalanced": UnbalancedTaskSchema,
        "through_model": ThroughModelTaskSchema,
        "repeat_tokens": RepeatTokensTaskSchema,
        "soundness": SoundnessTaskSchema,
    },
}
