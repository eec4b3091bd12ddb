"""The paper's adversarial configurations at the layers of a model: growth n^(1/2) of the whole layer's constant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, final

from robust_attn.records.entry import Json
from robust_attn.records.kinds import Record, StudyRecord
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.study import constants, study_records
from robust_attn.tasks.task import Task, expect_different
from robust_attn.types import UserError
from robust_attn.views.fit import power_law
from robust_attn.views.panel import Panel
from robust_attn.views.studies import study_view
from robust_attn.views.view import View
from robust_attn.work import Work

if TYPE_CHECKING:
    from torch import Tensor

    from robust_attn.attention.layer import AttentionLayer
    from robust_attn.pipeline.jobs import LayerJob


@final
@dataclass(frozen=True)
class AdversarialLayerTask(Task):
    """The paper's adversarial configurations at the model's layers.

    One token against a cluster of the others, along a real eigenvector of a head's A; special token first. The head is
    the one whose configuration makes the layer steepest at the largest length. Biases stay as the model has them.
    """

    lengths: tuple[int, ...] = setting([4, 8, 16, 32, 64, 128], "numbers of tokens", least=2)
    radius: float | None = setting(None, "radius of the configurations, null for that of the text's tokens", least=0)
    name: ClassVar[str] = "adversarial_layer"

    def __post_init__(self) -> None:
        super().__post_init__()
        expect_different(self.lengths)

    def records(self, work: Work) -> Iterator[Record]:
        """One record per layer and length."""
        from robust_attn.pipeline.layers import each_layer

        yield from each_layer(work, self.layer_records)

    def layer_records(self, job: LayerJob) -> Iterator[Record]:
        """One record per length, with the bounds of the ball."""
        import torch

        from robust_attn.attention.measure import TokenMeasure
        from robust_attn.pipeline.balls import attained, ball_bounds, ball_fields

        if job.layer.rotary is not None:
            raise UserError(f"Layer {job.subject.layer} has rotary positions: its heads have no single matrix A.")
        if any(origin.cut is not None for origin in job.subject.origins):
            raise UserError(
                "task=adversarial_layer brings its own tokens: use running text such as data=prose, not rows."
            )
        radius = float(job.inputs.radius.max()) if self.radius is None else self.radius
        subject = replace(job.subject, origins=())
        layer = job.layer.to(torch.float64)
        head, pair = _steepest_head(layer, radius, max(self.lengths))
        for length in self.lengths:
            points = _repeated(pair, length)
            bounds = ball_bounds(layer, TokenMeasure.uniform(points), radius)
            yield StudyRecord(
                **subject.heading(0, length),
                study=self.name,
                configuration=f"head {head}",
                mask=str(layer.mask),
                radius=radius,
                **ball_fields(attained(layer, points), bounds),
            )

    def findings(self, records: Sequence[Record]) -> Json | None:
        """Per layer: C and exponent of C n^exponent through the constants, the radius, and the head."""
        found = []
        for layer in _layers(records):
            some = [record for record in study_records(records, layer=layer) if record.lipschitz.lower is not None]
            if not some:
                continue
            law = power_law((0, record.tokens, record.lipschitz.lower) for record in some)
            last = max(some, key=lambda record: record.tokens)
            facts = {name: getattr(last, name) for name in ("layer", "configuration", "radius", "mask")}
            coefficient = (last.lipschitz.lower or 0.0) / last.tokens**0.5
            found.append({**facts, "exponent": law.exponent, "constant_over_sqrt_n": coefficient})
        return {"growth": found}

    def panels(self, records: Sequence[Record]) -> tuple[Panel, ...]:
        """Constants of every layer against n."""
        own = study_records(records)
        if not own:
            return ()
        layers = _layers(own)
        lines = {f"layer {layer}": constants(study_records(own, layer=layer), "tokens") for layer in layers}
        title = f"{own[0].model}: adversarial configurations"
        return (Panel(self.name, title, "tokens", "local Lipschitz constant", lines),)

    def view(self, run: Run) -> View:
        """Whether bounds held, and the growth of every layer."""
        return study_view(run, self.panels(run.records))


def _layers(records: Sequence[Record]) -> list[int]:
    return sorted({record.layer or 0 for record in study_records(records)})


def _steepest_head(layer: AttentionLayer, radius: float, length: int) -> tuple[int, Tensor]:
    """The head, and its special and its common token."""
    from robust_attn.bounds import paper
    from robust_attn.pipeline.balls import attained, head_matrix

    found = []
    for head in range(layer.heads):
        pair = paper.adversarial_tokens(head_matrix(layer, head), radius=radius, length=2)
        found.append((attained(layer, _repeated(pair, length)), head, pair))
    _, head, pair = max(found, key=lambda entry: entry[0])
    return head, pair


def _repeated(pair: Tensor, length: int) -> Tensor:
    import torch

    return torch.cat([pair[:1], pair[1:].expand(length - 1, -1)])
