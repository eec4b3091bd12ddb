"""Runs in memory for tests, of records that the schema made."""

from dataclasses import replace
from pathlib import Path

from robust_attn.records.kinds import Record
from robust_attn.records.parts import Certified, Motion
from robust_attn.records.store import Run
from robust_attn.types import Verdict
from tests.records.samples import (
    attack_record,
    case_record,
    certify_record,
    constant_record,
    layer_record,
    prediction_record,
    repeat_layer_record,
    repeat_record,
    search_record,
    study_record,
    task_of,
)

NOTHING = Certified()
UNKNOWN = {"certified": NOTHING, "tightness": None}


def run_of(*records: Record, **fields: object) -> Run:
    made = Run(
        folder=Path("run"),
        records=records,
        damaged_lines=0,
        summary={"status": "complete", "task": task_of(records)},
        environment=None,
        inputs=None,
        overrides=(),
        config={},
    )
    return replace(made, **fields)


def moved(rms: list[float], layer: int = 0, sample: int = 0, **lists: list) -> Record:
    """An attack that moved tokens so far, with pieces that stayed together unless told."""
    base = {"apart": [0.0] * len(rms), "farthest": rms, "share": [0.5] * len(rms), "parts": [1] * len(rms)}
    whole = {name: tuple(values) for name, values in ({"rms": rms} | base | lists).items()}
    return attack_record(layer, sample, tokens=len(rms), motion=Motion(**whole))


KINDS: dict[str, list[Record]] = {
    "attack": [attack_record(layer, sample) for layer in range(2) for sample in range(2)],
    "certify": [certify_record(layer, head) for layer in range(2) for head in (None, 0, 1)],
    "lipschitz": [constant_record(layer, n, s) for layer in range(2) for n in (4, 16) for s in range(2)],
    "worst_case": [search_record(layer) for layer in range(2)],
    "prediction": [*(prediction_record(sample) for sample in range(4)), layer_record(0), layer_record(1)],
    "repeat": [repeat_record(1), repeat_record(2), repeat_layer_record()],
    "soundness": [case_record(seed) for seed in range(3)],
    "study": [study_record(tokens=n) for n in (4, 8)],
}
"""Records as a run of each task writes them."""

BROKEN: dict[str, Record] = {
    "attack": attack_record(9, verdict=Verdict.VIOLATED),
    "certify": certify_record(9, verdict=Verdict.VIOLATED),
    "worst_case": search_record(9, verdict=Verdict.VIOLATED),
    "prediction": prediction_record(9, verdict=Verdict.VIOLATED),
    "layer": layer_record(9, verdict=Verdict.VIOLATED),
    "repeat": replace(repeat_layer_record(9), verdict=Verdict.VIOLATED),
    "soundness": case_record(9, verdict=Verdict.VIOLATED, violated=("local.hull",)),
    "study": replace(study_record(), verdict=Verdict.VIOLATED),
}
"""A record of every kind that can say so, which says that a promise was broken."""
