"""Every bound against the size of the perturbation, on the layers of a model: certified over exact local change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from robust_attn.budget import BUDGETS, Budget
from robust_attn.certificates.layer import certify_batch
from robust_attn.experiments.study import Record
from robust_attn.pipeline import CertificateOptions, LayerJob, layer_estimate
from robust_attn.record import record
from robust_attn.spectral.norms import head_norms
from robust_attn.views.panel import Panel, line


@dataclass(frozen=True)
class Tightness:
    """Budgets of one kind and growing radius around the same tokens; the local constant is computed once."""

    kind: str
    radii: Sequence[float]

    def records(self, job: LayerJob, options: CertificateOptions) -> Iterator[dict[str, Any]]:
        """Certificates of every sample at every radius, as the certify task writes them."""
        weights = self._budget(1.0).weights(job.inputs)
        estimate = layer_estimate(job, weights, options, split=False)
        norms = head_norms(job.layer.to(torch.float64))
        for radius in self.radii:
            budget = self._budget(radius)
            certificates = certify_batch(job.layer, job.inputs, budget, lipschitz=estimate, norms=norms)
            for sample, certificate in enumerate(certificates):
                facts = record(
                    job.subject,
                    sample,
                    job.inputs.length,
                    budget,
                    certificate=certificate,
                    lipschitz=estimate,
                    result=None,
                )
                yield {**facts, "task": "tightness"}

    def _budget(self, radius: float) -> Budget:
        return BUDGETS[self.kind](radius)


def excess(entry: Record, bound: str | None = None) -> float | None:
    """The change that a bound (by default the certificate) allows, over radius times the local constant attained."""
    exact = entry["budget"]["radius"] * (entry["lipschitz"]["lower"] or 0.0)
    changes = {each["name"]: each["output_change"] for each in entry["bounds"] if each["applies"]}
    change = entry["certified"]["output_change"] if bound is None else changes.get(bound)
    return change / exact if change is not None and exact > 0 else None


def findings(records: Sequence[Record]) -> dict[str, Any]:
    """Per layer and radius the smallest and largest excess over the samples, and the bound that certifies."""
    found = []
    for layer in sorted({entry["layer"] for entry in records}):
        for radius in sorted({entry["budget"]["radius"] for entry in records}):
            some = [e for e in records if e["layer"] == layer and e["budget"]["radius"] == radius]
            values = [value for entry in some if (value := excess(entry)) is not None]
            if values:
                names = sorted({entry["certified"]["bound"] for entry in some})
                place = {"layer": layer, "radius": radius, "certified_by": names}
                found.append({**place, "smallest_excess": min(values), "largest_excess": max(values)})
    return {"certified_over_exact": found}


def panels(records: Sequence[Record]) -> tuple[Panel, ...]:
    """One panel over layers for the certificate, one over bounds for the first layer: largest excess over samples."""
    if not records:
        return ()
    first = records[0]["layer"]
    layers = sorted({entry["layer"] for entry in records})
    certified = {f"layer {layer}": _largest([e for e in records if e["layer"] == layer], None) for layer in layers}
    own = [entry for entry in records if entry["layer"] == first]
    upper = dict.fromkeys(b["name"] for e in own for b in e["bounds"] if b["applies"] and b["side"] == "upper")
    bounds = {name: _largest(own, name) for name in upper}
    label, ratio = f"radius ({records[0]['budget']['kind']})", "allowed change / (radius × local constant)"
    return (
        Panel("tightness", "Certified over exact local change", label, ratio, certified),
        Panel("tightness_bounds", f"Every bound, layer {first}", label, ratio, bounds),
    )


def _largest(records: Sequence[Record], bound: str | None) -> tuple[tuple[float, float], ...]:
    radii = sorted({entry["budget"]["radius"] for entry in records})
    values = {r: [excess(e, bound) for e in records if e["budget"]["radius"] == r] for r in radii}
    return line((r, max((v for v in found if v is not None), default=None)) for r, found in values.items())
