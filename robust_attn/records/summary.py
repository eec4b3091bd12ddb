"""summary.json: how a run ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from robust_attn.records.entry import Entry, Json, fact
from robust_attn.records.gate import Gate
from robust_attn.records.kinds import SCHEMA
from robust_attn.types import RunState


@dataclass(frozen=True, kw_only=True)
class Summary(Entry):
    """What a run amounts to, written when it ends, however it ends."""

    task: str = fact("the task's name")
    status: RunState = fact("complete, failed or interrupted")
    exit_status: int = fact("as the command line left")
    message: str | None = fact("in one sentence why, if not well", None)
    model: str = fact("the model's name")
    weights: str | None = fact("where the weights come from", None)
    attack: str | None = fact("the attack, where the task makes one", None)
    budget: Mapping[str, Any] = fact("the budget as it was asked for")
    tokens: int = fact("tokens per sample")
    samples: int = fact("samples")
    records: int = fact("lines of records.jsonl")
    verdicts: Mapping[str, int] = fact("how often each verdict was given")
    findings: Mapping[str, Any] | None = fact("the few numbers that the task is for", None)
    fail_if: Gate | None = fact("the conditions that were to fail, and where they hold; null without any", None)
    warnings: tuple[str, ...] = fact("what a reader should know before trusting the records", ())
    seconds: float | None = fact("time taken", None)
    peak_memory_gb: float | None = fact("largest resident size, in units of 10^9 bytes", None)

    def to_json(self) -> Json:
        """Plain values, with the schema in front."""
        return {"schema": SCHEMA, **super().to_json()}
