"""Classifiers of every kind: with the model's own head, or an encoder with the mean over tokens and a head beside."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, final

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from robust_attn.attention.mask import Mask, log_weight
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.generic.as_found import evaluating
from robust_attn.models.heads import Head
from robust_attn.models.model import AttentionModel
from robust_attn.predictions.networks.families import mean_network, whole_network
from robust_attn.predictions.steps import Network, head_of
from robust_attn.through.contract import Classifier, TextClassifier
from robust_attn.types import UserError

READING: Mapping[str, Any] = {"use_cache": False, "logits_to_keep": 1}
"""Keywords for the models that know them: nothing is kept for further tokens, and logits are of the last one alone."""
DIFFERENT_WINDOWS = "its layers see different windows of so long a text, which one mask cannot say"


@final
@dataclass(frozen=True, eq=False)
class MeanClassifier(TextClassifier):
    """A BERT encoder that reads word embeddings, the mean over tokens, and a head.

    Masses enter the attention as log m_j beside the logits and the mean as weights, so that a token written as several
    atoms, which share its position, is read as the token itself.
    """

    model: AttentionModel
    head: nn.Module

    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """The head's logits of the weighted mean."""
        options: dict[str, Any] = {"inputs_embeds": measure.points, "position_ids": measure.positions}
        if measure.masses.requires_grad or not measure.is_uniform:
            size = (len(measure.points), 1, measure.length, measure.length)
            options["attention_mask"] = measure.masses.log()[:, None, None, :].expand(size)
        hidden: Tensor = self.model.module(**options).last_hidden_state
        logits: Tensor = self.head((measure.masses[..., None] * hidden).sum(1))
        return logits

    def network(self, length: int) -> Network:
        """Of the encoder's family."""
        return mean_network(self.model.module, head_of(self.head), length)


@final
@dataclass(frozen=True, eq=False)
class OwnHeadClassifier(TextClassifier):
    """A model of transformers with its own head: classes of a text, or the next token.

    Tokens of equal mass are read as the model reads them. Other masses enter the attention as log m_j beside the logits
    where the model takes such a mask; `refusal` says why not where it does not. A model reads its class from the first
    token, or from the last one; next tokens from the last one.
    """

    model: AttentionModel
    head: Head
    refusal: str | None = None

    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """The model's own logits; samples that the model cannot read at once are read one by one, without padding."""
        padded = not bool(measure.present.all())
        if len(measure.points) > 1 and (padded or self._refuses_batches):
            samples = [_unpadded(measure, index) for index in range(len(measure.points))]
            return torch.cat([self.logits(sample) for sample in samples])
        measure = _unpadded(measure, 0) if padded else measure
        return self._read(inputs_embeds=measure.points, **self._written(measure))

    def read_ids(self, batch: Int[Tensor, "samples n"]) -> Int[Tensor, "samples read"]:
        """Without padding at the end, which decoders that classify skip; tokenizers may end a text with it."""
        padding = getattr(self.model.module.config, "pad_token_id", None)
        if padding is None or not self._looks_for_padding:
            return batch
        last = (batch != padding).int().cumsum(1).argmax(1)
        if bool((last != last[0]).any()):
            raise UserError(f"{self.model.name} reads texts that end in padding one by one.")
        return batch[:, : int(last[0]) + 1]

    def logits_of_ids(self, ids: Int[Tensor, "samples n"]) -> Float[Tensor, "samples classes"]:
        """What the model says to token ids: the reference."""
        return self._read(input_ids=ids.to(next(self.model.module.parameters()).device))

    def network(self, length: int) -> Network:
        """Of the model's family."""
        return whole_network(self.model.module, length)

    def _read(self, **inputs: Any) -> Float[Tensor, "samples classes"]:
        module = self.model.module
        known = inspect.signature(module.forward).parameters
        options = {name: value for name, value in READING.items() if name in known}
        with evaluating(module):
            logits: Tensor = module(**inputs, **options).logits
        return logits[:, -1] if self.head is Head.NEXT_TOKEN else logits

    @property
    def _looks_for_padding(self) -> bool:
        """Decoders that classify read the last token that is not padding."""
        return self.head is Head.SEQUENCE and any(layer.weights.mask is not Mask.NONE for layer in self.model.attached)

    @property
    def _refuses_batches(self) -> bool:
        """They refuse batches where no token is called padding."""
        return self._looks_for_padding and getattr(self.model.module.config, "pad_token_id", None) is None

    def _written(self, measure: TokenMeasure) -> dict[str, Tensor]:
        """How positions and masses are told, where they are not those of a plain text."""
        places = torch.arange(measure.length, device=measure.positions.device)
        if not measure.masses.requires_grad and measure.is_uniform and bool((measure.positions == places).all()):
            return {}
        mask = self.mask_for(measure) if self.refusal is None else None
        if mask is None:
            why = self.refusal or DIFFERENT_WINDOWS
            raise UserError(f"{self.model.name} reads tokens of equal mass alone, so mass cannot be split: {why}.")
        return {"position_ids": measure.positions + _first_position(self.model.module), "attention_mask": mask}

    def mask_for(self, measure: TokenMeasure) -> Float[Tensor, "samples 1 atoms atoms"] | None:
        """log m_j where atom j is seen, the most negative number elsewhere; None where layers do not see the same."""
        size = (*measure.masses.shape, measure.length)
        masks = dict.fromkeys(layer.weights.mask for layer in self.model.attached)
        first, *others = (log_weight(mask, measure.positions, measure.masses).expand(size) for mask in masks)
        if any(not torch.equal(first, other) for other in others):
            return None
        return first.clamp(min=torch.finfo(first.dtype).min)[:, None]


@final
@dataclass(frozen=True, eq=False)
class ImageClassifier(Classifier):
    """A model of images with its own head. The points are pixels in rows, with channels as coordinates."""

    model: AttentionModel

    @property
    def image(self) -> tuple[int, int, int]:
        """Of the model."""
        assert self.model.image_shape is not None
        return self.model.image_shape

    def measure(self, batch: Float[Tensor, "samples channels height width"]) -> TokenMeasure:
        """Pixels in [-1, 1]."""
        return TokenMeasure.uniform(batch.to(self.model.dtype).flatten(2).transpose(1, 2))

    def logits(self, measure: TokenMeasure) -> Float[Tensor, "samples classes"]:
        """The model's own logits; it reads an image as it is, so all masses must be equal."""
        if not measure.is_uniform or measure.length != self.image[1] * self.image[2]:
            raise UserError(f"{self.model.name} reads whole images: mass can be split between tokens, not pixels.")
        pixels = measure.points.transpose(1, 2).reshape(-1, *self.image)
        with evaluating(self.model.module):
            logits: Tensor = self.model.module(pixels).logits
        return logits

    def at_layer(self, measure: TokenMeasure, points: Float[Tensor, "samples atoms d"]) -> TokenMeasure:  # noqa: ARG002
        """Patches and the class token, with equal masses."""
        return TokenMeasure.uniform(points)

    def network(self, length: int) -> Network:
        """Of the model's family."""
        return whole_network(self.model.module, length)


def _unpadded(measure: TokenMeasure, index: int) -> TokenMeasure:
    """One sample as a batch of its own, without atoms of mass zero."""
    kept = measure.present[index]
    parts = (each[index][kept][None] for each in (measure.points, measure.masses, measure.positions))
    return TokenMeasure(*parts)


def _first_position(module: nn.Module) -> int:
    """The number of the first position: one past the padding index where positions are counted from there (RoBERTa)."""
    for name, part in module.named_modules():
        if isinstance(part, nn.Embedding) and name.endswith("position_embeddings") and part.padding_idx is not None:
            return part.padding_idx + 1
    return 0
