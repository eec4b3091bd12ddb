"""Run folders as a run leaves them: of records that the schema made, whole or cut."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from robust_attn.records.kinds import AttackRecord, Record
from robust_attn.records.store import line_of
from tests.records.samples import attack_record, certified, observed, task_of

ENVIRONMENT = {"commit": "0123abc", "threads": 2, "weights": {"sha256": {"model.onnx": "5c38ec7c405ec4b4"}}}
CONFIG = "model: {name: minilm, weights: auto}\ndata: {name: prose}\ntokens: 32\nseed: 0\n"
RECORDS = [attack_record(layer, sample) for layer in range(6) for sample in range(4)]


def write_run(
    folder: Path,
    records: Sequence[Record] = RECORDS,
    *,
    tail: str = "",
    summary: dict[str, Any] | None = None,
    finished: bool = True,
    environment: dict[str, Any] | None = None,
    overrides: tuple[str, ...] = ("attack=mass_split", "model=minilm"),
    config: str = CONFIG,
    inputs: dict[str, Any] | None = None,
) -> Path:
    """A run folder; `tail` is what a killed run leaves behind its last whole line."""
    (folder / ".hydra").mkdir(parents=True)
    (folder / "records.jsonl").write_text("".join(map(line_of, records)) + tail, encoding="utf-8")
    if finished:
        said = {
            "task": task_of(records),
            "status": "complete",
            "model": "minilm",
            "attack": "mass_split",
            "seconds": 12.5,
        }
        (folder / "summary.json").write_text(json.dumps(said | (summary or {})), encoding="utf-8")
    (folder / "environment.json").write_text(json.dumps(ENVIRONMENT | (environment or {})), encoding="utf-8")
    typed = "".join(f"- {json.dumps(override)}\n" for override in overrides)
    (folder / ".hydra" / "overrides.yaml").write_text(typed, encoding="utf-8")
    chosen = config if "task:" in config else f"task: {{name: {task_of(records)}}}\n{config}"
    (folder / ".hydra" / "config.yaml").write_text(chosen, encoding="utf-8")
    if inputs is not None:
        (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    return folder


def grown(attack: str, model: str, tokens: int, layer: int) -> AttackRecord:
    """A record whose gain grows like the fourth root of the length."""
    factor = (tokens / 32) ** 0.25 * (1.3 if attack == "mass_split" else 1.0)
    about = {"attack": attack, "model": model, "tokens": tokens, "motion": None}
    seen = {"observed": observed(0.1 * factor), "certified": certified(0.2 * factor)}
    return replace(attack_record(layer), **about, **seen)


def write_sweep(folder: Path, *, lengths: tuple[int, ...] = (16, 32, 64, 128)) -> Path:
    """Two models, two attacks and several lengths."""
    jobs = [(m, a, n) for m in ("minilm", "gpt2") for a in ("move", "mass_split") for n in lengths]
    for number, (model, attack, tokens) in enumerate(jobs):
        write_run(
            folder / str(number),
            [grown(attack, model, tokens, layer) for layer in range(3)],
            overrides=(f"attack={attack}", f"model={model}", f"tokens={tokens}"),
            summary={"model": model, "attack": attack, "tokens": tokens, "samples": 1},
        )
    return folder
