"""What arrives at a layer from each source (settings.py): one function for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attention.measure import TokenMeasure
from robust_attn.data import images, synthetic, text
from robust_attn.data.hub import hub_text
from robust_attn.data.prose import passages, prose, read_elsewhere
from robust_attn.data.rows import Origin, Row, class_of, rows_of, taken
from robust_attn.data.settings import Digits, Gaussian, HubText, ImageFolder, Prose, Rows, Sphere, TextFile
from robust_attn.models.model import AttentionModel
from robust_attn.models.texts import Ends, ends_of, equal_lengths
from robust_attn.types import UserError

Source = Prose | TextFile | Rows | HubText | Gaussian | Sphere | Digits | ImageFolder
PROBE = "a text"
"""What the tokenizer puts around it, it puts around every text."""


@dataclass(frozen=True)
class TextWindow:
    """The tokens `ids[span]` of a text."""

    text: str
    ids: list[int]
    span: slice


@dataclass(frozen=True)
class TokenRow(Row):
    """A row as a model reads it: its token ids, and how many tokens were cut off its end."""

    ids: tuple[int, ...] = ()
    cut: int = 0


@dataclass(frozen=True, eq=False)
class LayerInputs:
    """Samples of one length: what arrives at each layer, and their tokens as a person reads them; None without text.

    `origins` say which sample is which, and of which row; empty where these are all samples in order, and no rows.
    """

    measures: dict[int, TokenMeasure]
    spelled: list[list[str]] | None
    origins: tuple[Origin, ...] = ()


def read_inputs(
    source: Source,
    model: AttentionModel,
    *,
    layers: Sequence[int],
    tokens: int,
    samples: int,
    generator: torch.Generator,
) -> LayerInputs:
    """The only group of `read_groups`, for sources whose samples have one length."""
    groups = read_groups(source, model, layers=layers, tokens=tokens, samples=samples, generator=generator)
    if len(groups) != 1:
        raise UserError(f"the samples have {len(groups)} different lengths; expected one")
    return groups[0]


def read_groups(
    source: Source,
    model: AttentionModel,
    *,
    layers: Sequence[int],
    tokens: int,
    samples: int,
    generator: torch.Generator,
    shown: int = 0,
) -> tuple[LayerInputs, ...]:
    """The input of each of the layers as uniform measures batched over samples of equal length, with their text.

    Text and images run through the whole model; an image has as many tokens as the model makes of it, so `tokens` is
    ignored for images. Rows are cut after `tokens` and never padded: shorter ones have as many as they have, so there
    is a group for every length. Rows of at most `shown` tokens are left out where they would not be cut: they have been
    looked at as they are. Gaussian and sphere points are put at the layer directly, the same draws at every layer; only
    they use the generator, and they may be longer than the model's positions reach.
    """
    match source:
        case Gaussian() | Sphere():
            drawn = _synthetic(source, model, layers, tokens=tokens, samples=samples, generator=generator)
            return (LayerInputs(drawn, None),)
        case Digits() | ImageFolder():
            return (_of_images(source, model, layers, samples),)
        case Prose() | TextFile() | HubText() | Rows():
            _expect_text(model, tokens)
            rows = text_rows(source, samples)
            if rows is None:
                assert not isinstance(source, Rows)
                return (_of_running_text(source, model, layers, tokens, samples),)
            read = [read_row(row, model, tokens=tokens, special_tokens=source.special_tokens) for row in rows]
            return tuple(_of_rows(read, model, layers, places) for places in _groups(read, shown))


def expect_readable(source: Source, samples: int) -> None:
    """A UserError if one's own rows, texts or images are not there or cannot be read; no model is needed to tell."""
    match source:
        case Rows():
            text_rows(source, samples)
        case TextFile(path):
            if text_rows(source, samples) is None:
                text.read_text(Path(path).expanduser())
        case ImageFolder(path):
            images.pictures(Path(path).expanduser(), samples)
        case _:
            return


def read_ahead(source: Source) -> None:
    """What takes time to read and needs no model, read by another process; who needs it finds it there, or reads it."""
    if isinstance(source, Prose):
        read_elsewhere()


def text_rows(source: Prose | TextFile | HubText | Rows, samples: int) -> list[Row] | None:
    """So many rows of a source that has rows: a table, or files by a pattern. None for running text."""
    match source:
        case Rows(path, column, label, first):
            return taken(rows_of(path, column, label), samples, called=path, first=first)
        case TextFile(path):
            files = text.files_of(path)
            return None if files is None else taken(files, samples, called=path)
        case _:
            return None


def read_row(row: Row, model: AttentionModel, *, tokens: int, special_tokens: bool = True) -> TokenRow:
    """At most so many tokens of a row, special ones among them; its label is the model's class where it names one."""
    ids = model.encode(row.text)
    if not ids:
        raise UserError(f"row {row.index} has no tokens: {row.text!r:.40}")
    ends = ends_of(model.tokenizer, row.text) if special_tokens else Ends()
    kept = ends.around(ids, tokens)
    label = class_of(row.label, model.class_names)
    return TokenRow(row.index, row.text, label, tuple(kept), len(ids) + ends.count - len(kept))


def text_windows(
    source: Prose | TextFile | HubText, model: AttentionModel, *, tokens: int, samples: int
) -> list[TextWindow]:
    """So many windows of exactly `tokens` tokens, none overlapping, spread evenly over the source.

    In prose each begins with a paragraph; in other running text it begins where it happens to.
    """
    if tokens < 1 or samples < 1:
        raise UserError(f"tokens and samples must be at least 1, got {tokens} and {samples}")
    match source:
        case Prose():
            return [_beginning(model, passage, tokens, samples) for passage in passages(prose(), samples)]
        case TextFile(path):
            whole = text.read_text(Path(path).expanduser())
        case HubText(dataset, split, column):
            whole = hub_text(dataset, split, column)
    ids = model.encode(whole)
    return [TextWindow(whole, ids, span) for span in text.spans(len(ids), tokens, samples)]


def _beginning(model: AttentionModel, passage: str, tokens: int, samples: int) -> TextWindow:
    ids = model.encode(passage)
    if len(ids) < tokens:
        raise UserError(
            f"{samples} passages of prose have no {tokens} tokens each (one has {len(ids)}): "
            "ask for fewer or shorter samples, or give more text (data=text)"
        )
    return TextWindow(passage, ids, slice(0, tokens))


def pixels_of(
    source: Digits | ImageFolder, shape: tuple[int, int, int], samples: int, processor: Any | None = None
) -> Float[Tensor, "samples channels height width"]:
    """Its first images, in the shape that a model reads and as its image processor makes them, where it has one."""
    if isinstance(source, Digits):
        return images.digits(samples, shape)
    return images.pixels(images.pictures(Path(source.path).expanduser(), samples), shape, processor)


def image_origins(source: Digits | ImageFolder, model: AttentionModel, samples: int) -> tuple[Origin, ...]:
    """Which image of its folder every sample is, and its label; empty for images of no folder."""
    if isinstance(source, Digits):
        return ()
    chosen = images.pictures(Path(source.path).expanduser(), samples)
    labels = [class_of(picture.label, model.class_names) for picture in chosen]
    return tuple(
        Origin(place, each.index, label) for place, (each, label) in enumerate(zip(chosen, labels, strict=True))
    )


def _expect_text(model: AttentionModel, tokens: int) -> None:
    if model.takes_images:
        raise UserError(f"{model.name} reads images, not text: use data=digits, a folder of images or gaussian")
    if model.max_tokens is not None and tokens > model.max_tokens:
        raise UserError(f"{model.name} reads at most {model.max_tokens} tokens, got tokens={tokens}")


def _of_images(source: Digits | ImageFolder, model: AttentionModel, layers: Sequence[int], samples: int) -> LayerInputs:
    if model.image_shape is None:
        raise UserError(f"{model.name} reads text, not images: use data=prose, a text file or gaussian")
    pixels = pixels_of(source, model.image_shape, samples, model.image_processor)
    return LayerInputs(model.inputs_at(layers, pixels), None, image_origins(source, model, samples))


def _of_running_text(
    source: Prose | TextFile | HubText, model: AttentionModel, layers: Sequence[int], tokens: int, samples: int
) -> LayerInputs:
    """Windows of a text, between the special tokens of the model unless these are left out."""
    ends = ends_of(model.tokenizer, PROBE) if source.special_tokens else Ends()
    windows = text_windows(source, model, tokens=ends.room(tokens), samples=samples)
    batch = torch.tensor([ends.around(window.ids[window.span]) for window in windows], dtype=torch.int64)
    before, after = (model.spelled("", each, [slice(None)])[0] if each else [] for each in (ends.before, ends.after))
    spelled = [[*before, *model.spelled(each.text, each.ids, [each.span])[0], *after] for each in windows]
    return LayerInputs(model.inputs_at(layers, batch), spelled)


def _groups(rows: Sequence[TokenRow], shown: int) -> Iterable[Sequence[int]]:
    """Places of rows of equal length, lengths in the order in which they come, without those that were shown whole."""
    new = [place for place, row in enumerate(rows) if row.cut or len(row.ids) > shown]
    together = equal_lengths([rows[place].ids for place in new]).values()
    return [[new[index] for index in indices] for indices in together]


def _of_rows(
    rows: Sequence[TokenRow], model: AttentionModel, layers: Sequence[int], places: Sequence[int]
) -> LayerInputs:
    chosen = [rows[place] for place in places]
    batch = torch.tensor([row.ids for row in chosen], dtype=torch.int64)
    spelled = [model.spelled(row.text, row.ids, [slice(0, len(row.ids))])[0] for row in chosen]
    origins = tuple(Origin(place, row.index, row.label, row.cut) for place, row in zip(places, chosen, strict=True))
    return LayerInputs(model.inputs_at(layers, batch), spelled, origins)


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
