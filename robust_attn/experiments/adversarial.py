"""The configurations that make attention steep: growth n^(1/2), beside the lower bounds that they attain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

from robust_attn.attention.mask import Mask
from robust_attn.experiments.fit import power_law
from robust_attn.experiments.study import (
    Matrix,
    Record,
    Study,
    ball_record,
    chosen,
    lower_configurations,
    single_head,
    upper_bounds,
)
from robust_attn.views.panel import Panel, bound_lines, line


@final
@dataclass(frozen=True)
class Adversarial(Study):
    """The constant at each configuration of docs/proofs/lower.md against the length; the paper's also masked."""

    A: Matrix
    radius: float
    lengths: Sequence[int]
    name: ClassVar[str] = "adversarial"

    def records(self, *, seed: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        """For every length the three configurations, and the paper's under a causal mask (special token first)."""
        for length in self.lengths:
            configurations = lower_configurations(self.A, radius=self.radius, length=length)
            for mask in Mask:
                layer = single_head(self.A, mask)
                upper = upper_bounds(layer, radius=self.radius, length=length)
                for configuration in configurations:
                    if mask is Mask.NONE:
                        yield ball_record(self.name, layer, configuration, radius=self.radius, upper=upper)
                    elif configuration.name == "paper":  # its lower bound is stated without a mask
                        masked = replace(configuration, lower=None)
                        yield ball_record(self.name, layer, masked, radius=self.radius, upper=upper)

    def findings(self, records: Sequence[Record]) -> dict[str, Any]:
        """The exponent of every configuration in n."""
        names = dict.fromkeys((record["configuration"], record["mask"]) for record in records)
        return {
            "exponents": {
                f"{name}, mask {mask}": power_law(
                    (0, record["tokens"], record["lipschitz"]["lower"])
                    for record in chosen(records, configuration=name, mask=mask)
                ).exponent
                for name, mask in names
            }
        }

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against n."""
        lines: dict[str, Any] = {}
        for name, mask in dict.fromkeys((record["configuration"], record["mask"]) for record in records):
            found = chosen(records, configuration=name, mask=mask)
            label = name if mask == "none" else f"{name}, causal"
            lines[label] = line((record["tokens"], record["lipschitz"]["lower"]) for record in found)
        bounds = bound_lines(chosen(records, mask="none"), "tokens")
        title = f"Adversarial configurations, R = {self.radius:g}"
        return (Panel("adversarial", title, "tokens", "Lipschitz constant", lines | bounds, frozenset(bounds)),)
