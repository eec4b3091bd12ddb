"""What the records of an experiment amount to: findings for the summary, panels for figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from robust_attn.build import STUDIES, study_from
from robust_attn.experiments import adversarial_layer, lipschitz, tightness
from robust_attn.experiments.panel import Panel
from robust_attn.experiments.study import Record


@dataclass(frozen=True)
class ExperimentOutcome:
    """`exponents` and `radius_exponents` are those of the lipschitz task; `findings` those of the other experiments."""

    exponents: list[dict[str, Any]] | None = None
    radius_exponents: list[dict[str, Any]] | None = None
    findings: dict[str, Any] | None = None
    panels: tuple[Panel, ...] = field(default=())


def outcome_of(task: dict[str, Any], records: Sequence[Record]) -> ExperimentOutcome:
    """The outcome of a task from its records, also where a run stopped early; empty for tasks without figures."""
    if not records:
        return ExperimentOutcome()
    match task["name"]:
        case "lipschitz":
            against_radius = lipschitz.fits(records, "scaled_to") if task["radii"] else None
            return ExperimentOutcome(lipschitz.fits(records), against_radius, None, lipschitz.panels(records))
        case "tightness":
            return ExperimentOutcome(findings=tightness.findings(records), panels=tightness.panels(records))
        case "adversarial_layer":
            found = adversarial_layer.findings(records)
            return ExperimentOutcome(findings=found, panels=adversarial_layer.panels(records))
        case name if name in STUDIES:
            study = study_from(task)
            return ExperimentOutcome(findings=study.findings(records), panels=study.panels(records))
        case _:
            return ExperimentOutcome()
