"""Run folders such as the pipeline leaves them, made from a few numbers: layers, samples, what went wrong."""

import json
import math
import random
from pathlib import Path
from typing import Any

TEXT = "The assert statement is a convenient way to insert debugging assertions into a program"


def bound(name: str, change: float | None, scope: str, **extra: Any) -> dict[str, Any]:
    log10 = extra.pop("log10", None)
    if log10 is None and change:
        log10 = math.log10(change / 0.01)
    return {
        "name": name,
        "log10": log10,
        "output_change": change,
        "scope": scope,
        "side": "upper",
        "applies": True,
        "why_not": None,
    } | extra


def record(
    layer: int = 0, sample: int = 0, *, attack: str = "mass_split", seed: int = 0, **extra: Any
) -> dict[str, Any]:
    """A record with numbers of the size seen on a small pretrained model; `extra` replaces whole fields."""
    rng = random.Random(f"{layer} {sample} {attack} {seed}")
    constant = 6.0 * 1.22**layer * rng.uniform(0.85, 1.15)
    certified = 0.01 * constant * rng.uniform(1.04, 1.4)
    observed = 0.01 * constant * rng.uniform(0.9, 0.999)
    steps = [observed * (1 - 0.7 * math.exp(-step / 6)) for step in range(40)]
    attacked = attack != "none"
    return {
        "schema": 1,
        "model": "minilm",
        "weights": "pretrained:all-MiniLM-L6-v2",
        "layer": layer,
        "sample": sample,
        "tokens": 32,
        "copies": 2 if attack == "mass_split" else 1,
        "attack": attack,
        "budget": {"kind": "wasserstein", "radius": 0.01},
        "observed": {
            "input_change": 0.01 if attacked else None,
            "output_change": observed if attacked else None,
            "gain": observed / 0.01 if attacked else None,
            "w2_input": 0.0098,
            "w2_output": observed * 0.98,
            "w2_gain": observed / 0.01,
        },
        "lipschitz": {"lower": constant * 0.999, "upper": constant, "failure_probability": 1e-9},
        "bounds": [
            bound("local.second_order", certified, "ball"),
            bound("local.closed_form", certified * 9, "local"),
            bound("hull", certified * 31, "ball"),
            bound("sharp.unified", certified * 1400, "global"),
            bound("sharp.half_square", certified * 1700, "global"),
            bound("paper.discrete", certified * 4200, "global"),
            bound("paper.mean_field", None, "global", log10=312.4 + layer),
            bound("paper.lower", certified * 0.02, "global", side="lower"),
            bound("paper.mean_field_masked", None, "global", applies=False, why_not="the layer has no causal mask"),
        ],
        "certified": {"bound": "local.second_order", "output_change": certified, "failure_probability": 1e-9},
        "tightness": observed / certified if attacked else None,
        "verdict": "HOLDS",
        "convergence": steps if attacked else [],
        "text": " ".join(sorted(TEXT.split(), key=lambda _: rng.random())),
    } | extra


def records(layers: int = 6, samples: int = 4, **extra: Any) -> list[dict[str, Any]]:
    return [record(layer, sample, **extra) for layer in range(layers) for sample in range(samples)]


def moved_record(
    rms: list[float],
    *,
    layer: int = 0,
    sample: int = 0,
    apart: list[float] | None = None,
    farthest: list[float] | None = None,
    share: list[float] | None = None,
    parts: list[int] | None = None,
) -> dict[str, Any]:
    """A record that says how far each token moved; by default every token moved as a whole."""
    count = len(rms)
    motion = {
        "rms": rms,
        "apart": apart or [0.0] * count,
        "farthest": farthest or rms,
        "share": share or [1.0] * count,
        "parts": parts or [1] * count,
    }
    return record(layer, sample) | {"tokens": count, "motion": motion}


def certificate_record(
    layer: int = 0, sample: int = 0, *, head: int | None = None, radius: float | None = 0.02, **extra: Any
) -> dict[str, Any]:
    """A record of task=certify with a tolerance: norms behind the bounds, and the radius that keeps 0.1."""
    norms = {"radius": 12.5, "value": 3.5, "interaction": 0.75, "kappa": 117.0, "mixing": 32.0}
    found = {"tolerance": 0.1, "radius": radius, "bound": "local.second_order", "unbounded": False}
    more = {"head": head, "norms": norms, "certified_radius": found | {"failure_probability": 1e-9}}
    return record(layer, sample, attack="none") | more | extra


def constant_record(layer: int = 0, sample: int = 0, *, tokens: int = 32, value: float = 1.0) -> dict[str, Any]:
    """A record of task=lipschitz: no budget, no bounds, no verdict."""
    return {
        "schema": 1,
        "model": "toy",
        "weights": "random:0",
        "layer": layer,
        "head": None,
        "sample": sample,
        "tokens": tokens,
        "task": "lipschitz",
        "radius": 4.0,
        "lipschitz": {"lower": value, "upper": value * 1.001, "failure_probability": 1e-9, "steps": 32},
    }


def search_record(layer: int = 0, *, found: float = 0.9, proved: float = 2.5, verdict: str = "HOLDS") -> dict[str, Any]:
    """A record of task=worst_case: gains in a ball, nothing observed."""
    bounds = [("sharp.unified", proved), ("paper.mean_field", proved * 2), ("paper.discrete", proved * 7)]
    return {
        "schema": 1,
        "model": "toy",
        "weights": "random:0",
        "layer": layer,
        "head": None,
        "sample": 0,
        "tokens": 32,
        "task": "worst_case",
        "radius": 1.0,
        "lipschitz": {"lower": found, "upper": proved, "failure_probability": 0.0},
        "bounds": [bound(name, value, "global", log10=math.log10(value)) for name, value in bounds],
        "certified": {"bound": "sharp.unified", "constant": proved, "failure_probability": 0.0},
        "tightness": found / proved,
        "verdict": verdict,
        "convergence": [found * 0.9, found * 0.99, found],
    }


def summary(**extra: Any) -> dict[str, Any]:
    return {
        "schema": 1,
        "task": "attack",
        "status": "complete",
        "exit_status": 0,
        "message": None,
        "model": "minilm",
        "weights": "pretrained:all-MiniLM-L6-v2",
        "attack": "mass_split",
        "budget": {"kind": "wasserstein", "radius": 0.01},
        "tokens": 32,
        "samples": 4,
        "seconds": 41.7,
    } | extra


ENVIRONMENT: dict[str, Any] = {
    "python": "3.11.7",
    "versions": {"torch": "2.8.0", "transformers": "5.1.0", "robust_attn": "0.1.0"},
    "commit": "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c",
    "weights": {
        "label": "pretrained:all-MiniLM-L6-v2",
        "sha256": "5c38ec7c405ec4b44b94cc5a9bb96e735b38267a" + "0" * 24,
    },
    "dtype": "float64",
    "threads": 2,
    "weights_note": None,
}

CONFIG = """task: attack
model: {name: minilm, weights: auto}
attack: {name: mass_split, copies: 2, steps: 40}
budget: {kind: wasserstein, radius: 0.01}
data: {name: prose}
tokens: 32
samples: 4
seed: 0
device: auto
dtype: float64
"""


def write_run(
    folder: Path,
    lines: list[dict[str, Any]] | None = None,
    *,
    tail: str = "",
    summary_fields: dict[str, Any] | None = None,
    finished: bool = True,
    environment: dict[str, Any] | None = None,
    overrides: tuple[str, ...] = ("attack=mass_split", "model=minilm"),
    config: str = CONFIG,
) -> Path:
    """A run folder; `tail` is what a killed run leaves behind its last whole line."""
    (folder / ".hydra").mkdir(parents=True)
    written = records() if lines is None else lines
    text = "".join(json.dumps(line) + "\n" for line in written) + tail
    (folder / "records.jsonl").write_text(text, encoding="utf-8")
    if finished:
        (folder / "summary.json").write_text(json.dumps(summary(**(summary_fields or {}))), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT | (environment or {})), encoding="utf-8")
    (folder / ".hydra" / "overrides.yaml").write_text(
        "".join(f"- {json.dumps(o)}\n" for o in overrides), encoding="utf-8"
    )
    (folder / ".hydra" / "config.yaml").write_text(config, encoding="utf-8")
    return folder


def write_inputs(folder: Path, inputs: dict[str, Any]) -> None:
    """The tokens of a run's samples, as the run writes them down."""
    (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")


def write_sweep(folder: Path, *, lengths: tuple[int, ...] = (16, 32, 64, 128)) -> Path:
    """Two models, two attacks and several lengths; the gain grows like the fourth root of the length."""
    jobs = [(m, a, n) for m in ("minilm", "gpt2") for a in ("move", "mass_split") for n in lengths]
    for number, (model, attack, tokens) in enumerate(jobs):
        factor = (tokens / 32) ** 0.25 * (1.6 if model == "gpt2" else 1.0) * (1.3 if attack == "mass_split" else 1.0)
        lines = [scaled(record(layer, 0, attack=attack), factor, tokens, model) for layer in range(3)]
        write_run(
            folder / str(number),
            lines,
            overrides=(f"attack={attack}", f"model={model}", f"tokens={tokens}"),
            summary_fields={"model": model, "attack": attack, "tokens": tokens, "samples": 1},
        )
    return folder


def scaled(line: dict[str, Any], factor: float, tokens: int, model: str) -> dict[str, Any]:
    seen = {
        key: value * factor if key.endswith(("output_change", "gain")) else value
        for key, value in line["observed"].items()
    }
    certified = line["certified"] | {"output_change": line["certified"]["output_change"] * factor}
    return line | {"observed": seen, "certified": certified, "tokens": tokens, "model": model}
