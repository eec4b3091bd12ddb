"""Whole classifiers that read measures: weighted tokens in, logits out, and what happens at every attention layer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.cache import cache_folder
from robust_attn.models.digits import LABEL
from robust_attn.models.hooks import watch
from robust_attn.models.injection import injection_classifier
from robust_attn.models.model import AttentionModel
from robust_attn.types import UserError


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


@final
@dataclass(frozen=True, eq=False)
class TextClassifier(Classifier):
    """A BERT encoder that reads word embeddings, the mean over tokens, and a head.

    Masses enter the attention as log m_j beside the logits and the mean as weights, so that a token written as several
    atoms, which share its position, is read as the token itself.
    """

    model: AttentionModel
    head: nn.Module

    def measure(self, batch: Int[Tensor, "samples n"]) -> TokenMeasure:
        """Word embeddings, before positions are added."""
        table: nn.Module = self.model.module.get_input_embeddings()  # type: ignore[operator]
        embeddings: Tensor = table(batch)
        return TokenMeasure.uniform(embeddings.detach())

    @property
    def ends(self) -> int:
        """How many tokens `framed` adds."""
        return sum(end is not None for end in self._end_ids())

    def typed(self, ids: Int[Tensor, " n"]) -> Bool[Tensor, " n"]:
        """True where a token was typed, False where it only begins or ends the text."""
        ends = torch.tensor([end for end in self._end_ids() if end is not None], dtype=ids.dtype)
        return ~torch.isin(ids, ends)

    def framed(self, ids: Int[Tensor, "samples n"]) -> Int[Tensor, "samples more"]:
        """The ids between the tokens that begin and end a text, where the tokenizer has such tokens."""
        before, after = ([] if end is None else [torch.full_like(ids[:, :1], end)] for end in self._end_ids())
        return torch.cat([*before, ids, *after], dim=1)

    def _end_ids(self) -> tuple[int | None, int | None]:
        tokenizer = self.model.tokenizer
        return getattr(tokenizer, "cls_token_id", None), getattr(tokenizer, "sep_token_id", None)

    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """The head's logits of the weighted mean."""
        options: dict[str, Any] = {"inputs_embeds": measure.points, "position_ids": measure.positions}
        if measure.masses.requires_grad or not measure.is_uniform:
            size = (len(measure.points), 1, measure.length, measure.length)
            options["attention_mask"] = measure.masses.log()[:, None, None, :].expand(size)
        hidden: Tensor = self.model.module(**options).last_hidden_state
        logits: Tensor = self.head((measure.masses[..., None] * hidden).sum(1))
        return logits

    def at_layer(self, measure: TokenMeasure, points: Float[Tensor, "samples atoms d"]) -> TokenMeasure:
        """Atoms keep their masses and positions all the way."""
        return measure.with_points(points)


@final
@dataclass(frozen=True, eq=False)
class ImageClassifier(Classifier):
    """A ViT and the head on its class token. The points are pixels in rows, with channels as coordinates."""

    model: AttentionModel
    head: nn.Module

    @property
    def image(self) -> tuple[int, int, int]:
        """Of the model."""
        assert self.model.image_shape is not None
        return self.model.image_shape

    def measure(self, batch: Float[Tensor, "samples channels height width"]) -> TokenMeasure:
        """Pixels in [-1, 1]."""
        return TokenMeasure.uniform(batch.to(self.model.dtype).flatten(2).transpose(1, 2))

    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """The head's logits of the class token; a ViT reads an image as it is, so all masses must be equal."""
        if not measure.is_uniform or measure.length != self.image[1] * self.image[2]:
            raise UserError(f"{self.model.name} reads whole images: mass can be split between tokens, not pixels.")
        pixels = measure.points.transpose(1, 2).reshape(-1, *self.image)
        hidden: Tensor = self.model.module(pixels).last_hidden_state
        logits: Tensor = self.head(hidden[:, 0])
        return logits

    def at_layer(self, measure: TokenMeasure, points: Float[Tensor, "samples atoms d"]) -> TokenMeasure:  # noqa: ARG002
        """Patches and the class token, with equal masses."""
        return TokenMeasure.uniform(points)


def classifier_of(model: AttentionModel) -> Classifier:
    """The classifier around a loaded model that was trained as one."""
    if model.name == "injection":
        return TextClassifier(model, injection_classifier(model).head.requires_grad_(False))
    if model.origin.label == LABEL:
        return ImageClassifier(model, _digits_head(model))
    raise UserError(
        f"{model.name} of {model.origin.label} is not a classifier; take model=injection, or model=vit as trained here."
    )


def _digits_head(model: AttentionModel) -> nn.Module:
    from safetensors.torch import load_file

    weights = load_file(cache_folder() / "vit-digits" / "model.safetensors")
    classes, width = weights["classifier.weight"].shape
    head = nn.Linear(width, classes, dtype=model.dtype)
    head.load_state_dict({name: weights[f"classifier.{name}"].to(model.dtype) for name in ("weight", "bias")})
    return head.requires_grad_(False)


class _Reading(nn.Module):
    """A module around `Classifier.logits`, for hooks to be run with; keeps the logits."""

    def __init__(self, classifier: Classifier, measure: TokenMeasure) -> None:
        super().__init__()
        self.classifier = classifier
        self.measure = measure
        self.logits = torch.empty(0)

    def forward(self, points: Tensor) -> None:
        self.logits = self.classifier.logits(self.measure.with_points(points))
