"""The configurations that make attention steep: growth n^(1/2), beside the lower bounds that they attain."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record
from robust_attn.settings import setting
from robust_attn.tasks.study import SQUARE, HeadStudy, Matrix, bound_lines, constants, study_records
from robust_attn.tasks.task import expect_different
from robust_attn.views.fit import power_law
from robust_attn.views.panel import Panel


@final
@dataclass(frozen=True)
class AdversarialTask(HeadStudy):
    """Adversarial configurations of one head with V = I against the number of tokens."""

    A: Matrix = setting([[-1.0, 0.6], [0.0, 0.5]], "the matrix of the head", form=SQUARE)
    radius: float = setting(2.5, "radius of the ball", least=0)
    lengths: tuple[int, ...] = setting([2**k for k in range(1, 12)], "numbers of tokens", least=2)
    name: ClassVar[str] = "adversarial"
    kinds: ClassVar[tuple[str, ...]] = ("study",)

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)

    def measured(self, *, seed: int) -> Iterator[Record]:  # noqa: ARG002
        """For every length the three configurations, and the paper's under a causal mask (special token first)."""
        from robust_attn.attention.mask import Mask
        from robust_attn.pipeline.balls import equal_mass_bounds, lower_configurations, single_head, study_record

        for length in self.lengths:
            configurations = lower_configurations(self.A, radius=self.radius, length=length)
            for mask in (Mask.NONE, Mask.CAUSAL):
                layer = single_head(self.A, mask)
                upper = equal_mass_bounds(layer, radius=self.radius, length=length)
                for configuration in configurations:
                    if mask is Mask.NONE:
                        yield study_record(self.name, layer, configuration, radius=self.radius, upper=upper)
                    elif configuration.name == "paper":  # its lower bound is stated without a mask
                        masked = replace(configuration, lower=None)
                        yield study_record(self.name, layer, masked, radius=self.radius, upper=upper)

    def findings(self, records: Sequence[Record]) -> Json | None:
        """The exponent of every configuration in n."""
        names = dict.fromkeys((record.configuration, record.mask) for record in study_records(records))
        laws = {
            f"{name}, mask {mask}": power_law(
                (0, record.tokens, record.lipschitz.lower)
                for record in study_records(records, configuration=name, mask=mask)
            ).exponent
            for name, mask in names
        }
        return {"exponents": laws}

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Attained constants and bounds against n."""
        names = dict.fromkeys((record.configuration, record.mask) for record in study_records(records))
        lines = {
            name if mask == "none" else f"{name}, causal": constants(
                study_records(records, configuration=name, mask=mask), "tokens"
            )
            for name, mask in names
        }
        bounds = bound_lines(study_records(records, mask="none"), "tokens")
        title = f"Adversarial configurations, R = {self.radius:g}"
        return (Panel("adversarial", title, "tokens", "Lipschitz constant", lines | bounds, frozenset(bounds)),)
