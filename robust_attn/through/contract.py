"""Whole classifiers that read measures: weighted tokens in, logits out, and what happens at every attention layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.hooks import watch
from robust_attn.models.model import AttentionModel
from robust_attn.predictions.steps import Network
from robust_attn.through.framing import frame_of


@dataclass(frozen=True, eq=False)
class Trace:
    """One pass: logits, and per attention layer the measure that arrived and the output that left."""

    logits: Float[Tensor, "samples classes"]
    inputs: tuple[TokenMeasure, ...]
    outputs: tuple[Float[Tensor, "samples n out"], ...]


class Classifier(ABC):
    """A model with a head, as a map on measures of its input points (word embeddings, pixels)."""

    model: AttentionModel

    @property
    def image(self) -> tuple[int, int, int] | None:
        """Channels, height and width of the images whose pixels are the points, None where they are no pixels."""
        return None

    @abstractmethod
    def measure(self, batch: Tensor) -> TokenMeasure:
        """The input points of a batch of token ids or of pixel values, with equal masses."""

    @abstractmethod
    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """Logits of every sample, differentiable in the points and masses."""

    @abstractmethod
    def at_layer(self, measure: TokenMeasure, points: Float[Tensor, "samples atoms d"]) -> TokenMeasure:
        """The measure at an attention layer whose input is `points`, when the model reads `measure`."""

    @abstractmethod
    def network(self, length: int) -> Network:
        """The same map on that many points of equal mass as steps, for certificates; see `network_of`."""

    @final
    def trace(self, measure: TokenMeasure) -> Trace:
        """Everything that one pass shows, without gradients."""
        reading = _Reading(self, measure)
        attached = self.model.attached
        watched = watch(
            reading,
            measure.points,
            sources=[layer.source for layer in attached],
            sinks=[layer.sink for layer in attached],
        )
        return Trace(reading.logits, tuple(self.at_layer(measure, each) for each in watched.inputs), watched.outputs)


class TextClassifier(Classifier):
    """Reads word embeddings, before positions are added. A token written as several atoms shares its position."""

    @final
    def measure(self, batch: Int[Tensor, "samples n"]) -> TokenMeasure:
        """Word embeddings, before positions are added."""
        table: nn.Module = self.model.module.get_input_embeddings()  # type: ignore[operator]
        embeddings: Tensor = table(self.read_ids(batch).to(next(table.parameters()).device))
        return TokenMeasure.uniform(embeddings.detach())

    def read_ids(self, batch: Int[Tensor, "samples n"]) -> Int[Tensor, "samples read"]:
        """Those of the ids that the model reads: all of them, unless it says otherwise."""
        return batch

    @property
    def ends(self) -> int:
        """How many tokens `framed` adds."""
        return frame_of(self.model.tokenizer).added

    @final
    def typed(self, ids: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """True where a token was typed, False where it only begins or ends the text."""
        frame = frame_of(self.model.tokenizer)
        return ~torch.isin(ids, torch.tensor([*frame.before, *frame.after], dtype=ids.dtype))

    @final
    def framed(self, ids: Int[Tensor, "samples n"]) -> Int[Tensor, "samples more"]:
        """The ids between the tokens that begin and end a text, as the tokenizer puts them."""
        frame = frame_of(self.model.tokenizer)
        before, after = (ids.new_tensor(end).expand(len(ids), -1) for end in (frame.before, frame.after))
        return torch.cat([before, ids, after], dim=1)

    @final
    def at_layer(self, measure: TokenMeasure, points: Float[Tensor, "samples atoms d"]) -> TokenMeasure:
        """Atoms keep their masses and positions all the way."""
        return measure.with_points(points)


class _Reading(nn.Module):
    """A module around `Classifier.logits`, for hooks to be run with; keeps the logits."""

    def __init__(self, classifier: Classifier, measure: TokenMeasure) -> None:
        super().__init__()
        self.classifier = classifier
        self.measure = measure
        self.logits = torch.empty(0)

    def forward(self, points: Tensor) -> None:
        self.logits = self.classifier.logits(self.measure.with_points(points))
