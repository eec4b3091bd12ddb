"""Settings: the schema of every configuration group, and their translation into validated plain values."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from robust_attn.attacks.torchattacks_table import checked_name
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
from robust_attn.types import UserError

DTYPES = ("float64", "float32")
DEVICES = ("auto", "cpu")
SUPPORTS = ("auto", "tokens", "normalization")
MASSES = ("equal", "sliver")
WANDB_MODES = ("offline", "online", "disabled")


@dataclass
class ModelSchema:
    """`weights` is auto, random, pretrained or a folder; `sizes` are configuration values for random weights."""

    name: str = MISSING
    weights: str = "auto"
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

    steps: int = 30
    restarts: int = 1
    name: str = "move"


@dataclass
class MassSplitSchema:
    """Write tokens as several atoms, then ascend; `tokens` is all or how many, `masses` equal or sliver."""

    copies: int = 2
    steps: int = 30
    restarts: int = 1
    tokens: Any = "all"
    masses: str = "equal"
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
class CertificateSchema:
    """How certificates are computed."""

    deterministic: bool = False
    failure_probability: float = 1e-9
    lanczos_steps: int = 64


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
    },
}


def register_schemas() -> None:
    """Make every group's schema known to Hydra, so that typos and wrong types are errors."""
    store = ConfigStore.instance()
    for group, schemas in SCHEMAS.items():
        for name, schema in schemas.items():
            store.store(group=group, name=name, node=schema)


@dataclass(frozen=True)
class Settings:
    """Validated settings; `groups` holds the chosen option of each group as plain values."""

    task: dict[str, Any]
    model: dict[str, Any]
    data: dict[str, Any]
    attack: dict[str, Any]
    budget: dict[str, Any]
    tracker: dict[str, Any]
    certificate: dict[str, Any]
    layers: tuple[int, ...] | None
    tokens: int
    samples: int
    seed: int
    dtype: str


def plain(config: DictConfig) -> dict[str, Any]:
    """The configuration as nested plain values, interpolations resolved."""
    values = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    assert isinstance(values, dict)
    return {str(key): value for key, value in values.items()}


def settings_from(config: DictConfig) -> Settings:
    """Validated settings, or a UserError of one sentence that says what was expected and what came."""
    values = plain(config)
    for name in ("tokens", "samples"):
        _at_least(name, values[name], 1)
    _one_of("dtype", values["dtype"], DTYPES)
    _one_of("device", values["device"], DEVICES)
    _non_negative("budget.radius", values["budget"]["radius"])
    _support(values["budget"]["support"])
    for name in ("steps", "restarts", "trials", "copies", "repeats"):
        if name in values["attack"]:
            _at_least(f"attack.{name}", values["attack"][name], 0 if name in ("restarts", "steps") else 1)
    _parts(values["attack"])
    if "suite" in values["attack"]:
        _one_of("attack.suite", values["attack"]["suite"], ("torchattacks",))
        checked_name(values["attack"]["name"])
    if values["tracker"]["name"] == "wandb":
        _one_of("tracker.mode", values["tracker"]["mode"], WANDB_MODES)
    _sizes(values["model"])
    _certificate(values["certificate"])
    _tolerance(values)
    _task(values["task"])
    names = (
        "task",
        "model",
        "data",
        "attack",
        "budget",
        "tracker",
        "certificate",
        "tokens",
        "samples",
        "seed",
        "dtype",
    )
    return Settings(layers=_layers(values["layers"]), **{name: values[name] for name in names})


def _certificate(values: dict[str, Any]) -> None:
    _at_least("certificate.lanczos_steps", values["lanczos_steps"], 1)
    probability = values["failure_probability"]
    if not 0 < probability < 1:
        raise UserError(f"certificate.failure_probability must lie between 0 and 1, got {probability}.")


def _support(value: Any) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    if not number and value not in SUPPORTS:
        raise UserError(f"budget.support must be {', '.join(SUPPORTS)} or a number above zero, got {value!r}.")


def _parts(attack: dict[str, Any]) -> None:
    """Which tokens are split, and how."""
    tokens = attack.get("tokens", "all")
    if tokens != "all" and not (type(tokens) is int and tokens >= 1):
        raise UserError(f"attack.tokens must be 'all' or a number of tokens, got {tokens!r}.")
    if "masses" in attack:
        _one_of("attack.masses", attack["masses"], MASSES)


def _tolerance(values: dict[str, Any]) -> None:
    """`tolerance` is short for `task.tolerance`, which only the certify task has."""
    task = values["task"]
    if values["tolerance"] is not None and "tolerance" not in task:
        raise UserError(f"tolerance is a setting of task=certify; there is none in task={task['name']}.")
    tolerance = task.get("tolerance")
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance > 0):
        raise UserError(f"tolerance must be a finite number above zero, got {tolerance}.")


def _sizes(model: dict[str, Any]) -> None:
    sizes = model["sizes"]
    if sizes is not None and not (isinstance(sizes, dict) and all(isinstance(key, str) for key in sizes)):
        raise UserError(f"model.sizes must be names with values, such as {{hidden_size:64}}, got {sizes!r}.")


def _task(values: dict[str, Any]) -> None:
    shortest = {"lipschitz": 1}.get(values["name"], 2)
    for length in (*values.get("lengths", ()), *values.get("beyond", ())):
        _at_least("task.lengths", length, shortest)
    if "lengths" in values and len(set(values["lengths"])) < 2:
        raise UserError(f"task.lengths needs at least two different lengths, got {values['lengths']}.")
    if values.get("radius") is not None:
        _non_negative("task.radius", values["radius"])
    for radius in values.get("radii", ()):
        _between("task.radii", radius, 0.0, math.inf)
    for name in ("balances", "slivers"):
        for mass in values.get(name, ()):
            _between(f"task.{name}", mass, 0.0, 1.0 if name == "balances" else 0.5)
    for name, least in (("windows", 1), ("copies", 1), ("atoms", 2), ("tokens", 3), ("steps", 0), ("restarts", 0)):
        found = values.get(name, least)
        for value in found if isinstance(found, list) else [found]:
            _at_least(f"task.{name}", value, least)
    for name in ("repeats", "candidates"):
        _at_least(f"task.{name}", values.get(name, 1), 1)
    _between("task.accuracy", values.get("accuracy", 0.5), 0.0, 1.0)
    if "mask" in values:
        _one_of("task.mask", values["mask"], ("model", "none", "causal"))
    if "A" in values:
        _square(values["A"])


def _square(rows: Any) -> None:
    listed = isinstance(rows, list) and rows and all(isinstance(row, list) and len(row) == len(rows) for row in rows)
    if not listed or not all(isinstance(x, int | float) and math.isfinite(x) for row in rows for x in row):
        raise UserError(f"task.A must be a square matrix given by its rows, such as [[-1,0],[0,0.5]], got {rows}.")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise UserError(f"{name} must lie between {low:g} and {high:g}, got {value}.")


def _layers(value: Any) -> tuple[int, ...] | None:
    if value == "all":
        return None
    layers = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(layers, list) or not layers or not all(type(layer) is int for layer in layers):
        raise UserError(f"layers must be 'all' or a list of layer numbers such as [0,5], got {value!r}.")
    return tuple(dict.fromkeys(layers))


def _at_least(name: str, value: int, least: int) -> None:
    if value < least:
        raise UserError(f"{name} must be at least {least}, got {value}.")


def _non_negative(name: str, value: float) -> None:
    if not (math.isfinite(value) and value >= 0):
        raise UserError(f"{name} must be a finite number that is not negative, got {value}.")


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise UserError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
