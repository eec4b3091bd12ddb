"""What values may be: each check passes in silence or raises a UserError of one sentence, with what came instead."""

from __future__ import annotations

import math
from typing import Any

from robust_attn.attacks.torchattacks_table import checked_name
from robust_attn.runs.name import ATTACKS_WHOLE_MODEL
from robust_attn.runs.tracking.choice import MODES
from robust_attn.types import LARGEST_SEED, UserError

DTYPES = ("float64", "float32", "bfloat16")
BUDGET_KINDS = ("wasserstein", "frobenius", "per_token")
SMALLEST = 1e-140
"""The smallest radius that is not zero: squares of displacements must not underflow."""
SUPPORTS = ("auto", "tokens", "normalization")
MASSES = ("equal", "sliver")
_EXPECTED = {
    "model.weights": "it must be auto, random, pretrained or a folder",
    "model.tokenizer": "it must be a folder, or null for the tokenizer of the weights",
    "data.path": "it must say where the data are",
}


def check_dtype(dtype: str, task: str) -> None:
    """The precision of the model; layers of a bfloat16 model are searched in float32, a whole one could not be."""
    one_of("dtype", dtype, DTYPES)
    if dtype == "bfloat16" and task in ATTACKS_WHOLE_MODEL:
        raise UserError(f"task={task} follows gradients through a whole model: dtype must be float64 or float32.")


CERTIFICATE_SEED_BITS = 63


def check_certificate(values: dict[str, Any]) -> None:
    """Steps and probability of Lanczos."""
    at_least("certificate.lanczos_steps", values["lanczos_steps"], 1)
    probability = values["failure_probability"]
    if not 0 < probability < 1:
        raise UserError(f"certificate.failure_probability must lie between 0 and 1, got {probability}.")
    seed = values["seed"]
    if seed is not None and not 0 <= seed < 2**CERTIFICATE_SEED_BITS:
        raise UserError(f"certificate.seed must be null or from 0 to 2^{CERTIFICATE_SEED_BITS} - 1, got {seed}.")


def check_tracker(values: dict[str, Any]) -> None:
    """The mode of wandb; other trackers have none."""
    if values["name"] == "wandb":
        one_of("tracker.mode", values["mode"], MODES)


def check_budget(values: dict[str, Any]) -> None:
    """The radius, and the ball that atoms stay in: by name or by its radius."""
    non_negative("budget.radius", values["radius"])
    if 0 < values["radius"] < SMALLEST:
        raise UserError(f"budget.radius must be zero or at least {SMALLEST:g}, got {values['radius']}.")
    one_of("budget.kind", values["kind"], BUDGET_KINDS)
    value = values["support"]
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value) and value > 0
    if not number and value not in SUPPORTS:
        raise UserError(f"budget.support must be {', '.join(SUPPORTS)} or a number above zero, got {value!r}.")


def check_attack(values: dict[str, Any]) -> None:
    """How much work an attack may do, which tokens it splits and how, and whether torchattacks has it."""
    for name, least in (("steps", 0), ("restarts", 0), ("trials", 1), ("copies", 1), ("repeats", 1)):
        at_least(f"attack.{name}", values.get(name, least), least)
    tokens = values.get("tokens", "all")
    if tokens != "all" and not (type(tokens) is int and tokens >= 1):
        raise UserError(f"attack.tokens must be 'all' or a number of tokens, got {tokens!r}.")
    one_of("attack.masses", values.get("masses", "equal"), MASSES)
    _between("attack.lightest", values.get("lightest", 0.5), 0.0, 1.0)
    if "suite" in values:
        one_of("attack.suite", values["suite"], ("torchattacks",))
        checked_name(values["name"])


def check_tolerance(values: dict[str, Any]) -> None:
    """`tolerance` is short for `task.tolerance`, which only the certify task has."""
    task = values["task"]
    if values["tolerance"] is not None and "tolerance" not in task:
        raise UserError(f"tolerance is a setting of task=certify; there is none in task={task['name']}.")
    tolerance = task.get("tolerance")
    if tolerance is not None and not (math.isfinite(tolerance) and tolerance > 0):
        raise UserError(f"tolerance must be a finite number above zero, got {tolerance}.")


def check_seed(seed: int) -> None:
    """What torch's generator tells apart."""
    if not 0 <= seed <= LARGEST_SEED:
        raise UserError(f"seed must be a whole number from 0 to {LARGEST_SEED}, got {seed}.")


def check_given(values: dict[str, Any]) -> None:
    """Words of the model and of the data that were typed as nothing: a path, a folder, a name."""
    for group in ("model", "data"):
        for name, value in values[group].items():
            if isinstance(value, str) and not value.strip():
                raise UserError(f"{group}.{name} is empty: {_EXPECTED.get(f'{group}.{name}', 'give it a value')}.")


def check_sizes(model: dict[str, Any]) -> None:
    """Sizes of a random model are names with values."""
    sizes = model["sizes"]
    if sizes is not None and not (isinstance(sizes, dict) and all(isinstance(key, str) for key in sizes)):
        raise UserError(f"model.sizes must be names with values, such as {{hidden_size:64}}, got {sizes!r}.")


def check_task(values: dict[str, Any]) -> None:
    """Every number that some task has, by its name; what a task does not have is not looked at."""
    shortest = {"lipschitz": 1}.get(values["name"], 2)
    for length in (*values.get("lengths", ()), *values.get("beyond", ())):
        at_least("task.lengths", length, shortest)
    if "lengths" in values and len(set(values["lengths"])) < 2:
        raise UserError(f"task.lengths needs at least two different lengths, got {values['lengths']}.")
    if values.get("radius") is not None:
        non_negative("task.radius", values["radius"])
    for radius in values.get("radii", ()):
        _between("task.radii", radius, 0.0, math.inf)
    for name in ("balances", "slivers"):
        for mass in values.get(name, ()):
            _between(f"task.{name}", mass, 0.0, 1.0 if name == "balances" else 0.5)
    for name, least in (("windows", 1), ("copies", 1), ("atoms", 2), ("tokens", 3), ("steps", 0), ("restarts", 0)):
        found = values.get(name, least)
        for value in found if isinstance(found, list) else [found]:
            at_least(f"task.{name}", value, least)
    for name in ("repeats", "candidates"):
        at_least(f"task.{name}", values.get(name, 1), 1)
    _between("task.accuracy", values.get("accuracy", 0.5), 0.0, 1.0)
    if values["name"] == "soundness":
        _check_campaign(values)
    if "mask" in values:
        one_of("task.mask", values["mask"], ("model", "none", "causal"))
    if "A" in values:
        _square(values["A"])


def _check_campaign(values: dict[str, Any]) -> None:
    """A campaign ends by itself: after so many cases, or after so many minutes."""
    if values["cases"] is None and values["minutes"] is None:
        raise UserError("task.cases and task.minutes cannot both be null: the campaign would never end.")
    at_least("task.cases", 1 if values["cases"] is None else values["cases"], 1)
    at_least("task.first_seed", values["first_seed"], 0)
    if values["minutes"] is not None:
        _between("task.minutes", values["minutes"], 0.0, math.inf)


def _square(rows: Any) -> None:
    listed = isinstance(rows, list) and rows and all(isinstance(row, list) and len(row) == len(rows) for row in rows)
    if not listed or not all(isinstance(x, int | float) and math.isfinite(x) for row in rows for x in row):
        raise UserError(f"task.A must be a square matrix given by its rows, such as [[-1,0],[0,0.5]], got {rows}.")


def _between(name: str, value: float, low: float, high: float) -> None:
    if not low < value < high:
        raise UserError(f"{name} must lie between {low:g} and {high:g}, got {value}.")


def chosen_layers(value: Any) -> tuple[int, ...] | None:
    """The layers named, each once, or None for all of them."""
    if value == "all":
        return None
    layers = [value] if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(layers, list) or not layers or not all(type(layer) is int for layer in layers):
        raise UserError(f"layers must be 'all' or a list of layer numbers such as [0,5], got {value!r}.")
    return tuple(dict.fromkeys(layers))


def at_least(name: str, value: int, least: int) -> None:
    """A whole number with a floor."""
    if value < least:
        raise UserError(f"{name} must be at least {least}, got {value}.")


def non_negative(name: str, value: float) -> None:
    """A finite number, zero included."""
    if not (math.isfinite(value) and value >= 0):
        raise UserError(f"{name} must be a finite number that is not negative, got {value}.")


def one_of(name: str, value: str, allowed: tuple[str, ...]) -> None:
    """One of a few names."""
    if value not in allowed:
        raise UserError(f"{name} must be one of {', '.join(allowed)}, got {value!r}.")
