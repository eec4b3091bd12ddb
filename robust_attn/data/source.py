"""What arrives at a layer from each source (settings.py): one function for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.data import images, synthetic, text
from robust_attn.data.hub import hub_text
from robust_attn.data.settings import Digits, Gaussian, HubText, ImageFolder, Prose, Sphere, TextFile
from robust_attn.models.model import AttentionModel
from robust_attn.types import UserError

Source = Prose | TextFile | HubText | Gaussian | Sphere | Digits | ImageFolder


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """What arrives at each layer, and the tokens of each sample as a person reads them; None where there is no text."""

    measures: dict[int, TokenMeasure]
    spelled: list[list[str]] | None


def read_inputs(
    source: Source,
    model: AttentionModel,
    *,
    layers: Sequence[int],
    tokens: int,
    samples: int,
    generator: torch.Generator,
) -> LayerInputs:
    """The input of each of the layers as a uniform measure batched over samples, with its text.

    Text and images run through the whole model; an image has as many tokens as the model makes of it, so `tokens` is
    ignored for images. Gaussian and sphere points are put at the layer directly, the same draws at every layer; only
    they use the generator, and they may be longer than the model's positions reach.
    """
    match source:
        case Gaussian() | Sphere():
            drawn = _synthetic(source, model, layers, tokens=tokens, samples=samples, generator=generator)
            return LayerInputs(drawn, None)
        case Digits() | ImageFolder():
            if model.image_shape is None:
                raise UserError(f"{model.name} reads text, not images: use data=prose, a text file or gaussian")
            return LayerInputs(model.inputs_at(layers, pixels_of(source, model.image_shape, samples)), None)
        case Prose() | TextFile() | HubText():
            if model.takes_images:
                raise UserError(f"{model.name} reads images, not text: use data=digits, a folder of images or gaussian")
            if model.max_tokens is not None and tokens > model.max_tokens:
                raise UserError(f"{model.name} reads at most {model.max_tokens} tokens, got tokens={tokens}")
            whole = text_of(source)
            ids = model.encode(whole)
            measures = model.inputs_at(layers, text.windows(ids, tokens, samples))
            return LayerInputs(measures, model.spelled(whole, ids, text.spans(len(ids), tokens, samples)))


def text_of(source: Prose | TextFile | HubText) -> str:
    """All of its text."""
    match source:
        case Prose():
            return text.prose()
        case TextFile(path):
            return text.read_text(Path(path).expanduser())
        case HubText(dataset, split, column):
            return hub_text(dataset, split, column)


def pixels_of(
    source: Digits | ImageFolder, shape: tuple[int, int, int], samples: int
) -> Float[Tensor, "samples channels height width"]:
    """Its first images, in the shape that a model reads."""
    if isinstance(source, Digits):
        return images.digits(samples, shape)
    return images.image_folder(Path(source.path).expanduser(), samples, shape)


def _synthetic(
    source: Gaussian | Sphere,
    model: AttentionModel,
    layers: Sequence[int],
    *,
    tokens: int,
    samples: int,
    generator: torch.Generator,
) -> dict[int, TokenMeasure]:
    """Every layer starts from the same state of the generator: its points do not depend on which others are asked."""
    if tokens < 1 or samples < 1:
        raise UserError(f"tokens and samples must be at least 1, got {tokens} and {samples}")
    start = generator.get_state()
    measures = {}
    for index in layers:
        generator.set_state(start)
        measures[index] = TokenMeasure.uniform(
            _points(source, model, index, (samples, tokens), generator).to(model.device)
        )
    return measures


def _points(
    source: Gaussian | Sphere, model: AttentionModel, index: int, size: tuple[int, int], generator: torch.Generator
) -> Float[Tensor, "samples tokens width"]:
    layer = model.layer(index)
    if isinstance(source, Gaussian):
        return synthetic.gaussian(*size, layer.width, generator, layer.dtype, scale=source.scale)
    radius = layer.input_radius if source.radius is None else source.radius
    if radius is None:
        raise UserError(f"layer {index} of {model.name} has no known input radius; give one (data.radius=...)")
    return synthetic.sphere(*size, layer.width, generator, layer.dtype, radius=radius)
