"""What the records of an experiment amount to: findings for the summary, panels for figures and tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from robust_attn.build import STUDIES, study_from
from robust_attn.experiments import adversarial_layer, lipschitz, tightness
from robust_attn.experiments.study import Record
from robust_attn.soundness import findings as soundness
from robust_attn.through.findings import flip_findings
from robust_attn.views.panel import Panel


@dataclass(frozen=True)
class ExperimentOutcome:
    """`exponents` and `radius_exponents` are those of the lipschitz task; `findings` those of the other experiments."""

    exponents: list[dict[str, Any]] | None = None
    radius_exponents: list[dict[str, Any]] | None = None
    findings: dict[str, Any] | None = None
    panels: tuple[Panel, ...] = field(default=())


def outcome_of(task: dict[str, Any], records: Sequence[Record]) -> ExperimentOutcome:
    """The outcome of a task from its records, also where a run stopped early; empty for tasks without figures."""
    match task["name"] if records else None:
        case "lipschitz":
            against_radius = lipschitz.fits(records, "scaled_to") if task["radii"] else None
            return ExperimentOutcome(lipschitz.fits(records), against_radius, None, lipschitz.panels(records))
        case "tightness" | "adversarial_layer" as name:
            study = {"tightness": tightness, "adversarial_layer": adversarial_layer}[name]
            return ExperimentOutcome(findings=study.findings(records), panels=study.panels(records))
        case "through_model":
            return ExperimentOutcome(findings=flip_findings(records))
        case "soundness":
            return ExperimentOutcome(findings=soundness.findings(records))
        case name if name in STUDIES:
            own = study_from(task)
            return ExperimentOutcome(findings=own.findings(records), panels=own.panels(records))
        case _:
            return ExperimentOutcome()
