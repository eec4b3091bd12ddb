"""The classifier around a loaded model, compared with the model itself before anybody gets it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.generic.precision import KeepFloat64
from robust_attn.models.heads import Head, head_on
from robust_attn.models.injection import injection_classifier
from robust_attn.models.model import AttentionModel
from robust_attn.models.quiet import quiet_transformers, reason
from robust_attn.models.reading import CHECK_SAMPLES, reading_of
from robust_attn.models.selfcheck import TOLERANCES, relative_difference
from robust_attn.through.contract import Classifier, TextClassifier, Trace
from robust_attn.through.readers import DIFFERENT_WINDOWS, ImageClassifier, MeanClassifier, OwnHeadClassifier
from robust_attn.types import UserError

__all__ = [
    "Classifier",
    "ImageClassifier",
    "MeanClassifier",
    "OwnHeadClassifier",
    "TextClassifier",
    "Trace",
    "classifier_of",
]


def classifier_of(model: AttentionModel) -> Classifier:
    """The classifier around a loaded model: with the head that it has, or with that of the injection detector.

    Logits from word embeddings, or from rows of pixels, are compared with the model's own.
    """
    if model.name == "injection":
        return MeanClassifier(model, injection_classifier(model).head.requires_grad_(False))
    head = head_on(model.module)
    if head is None:
        raise UserError(
            f"{model.name} of {model.origin.label} is not a classifier: a {type(model.module).__name__} has no head "
            "that gives classes or the next token; take model=injection, model=vit as trained here, a language model, "
            "or a folder saved from a model with such a head."
        )
    if head is Head.NEXT_TOKEN and all(layer.weights.mask is Mask.NONE for layer in model.attached):
        raise UserError(f"{model.name} is not a classifier: its tokens see later ones, so it gives no next token.")
    with torch.no_grad(), quiet_transformers(), exactly(model):
        try:
            return _checked_image(model) if head is Head.IMAGE else _checked_text(OwnHeadClassifier(model, head))
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{model.name} cannot be read from its input embeddings: {reason(error)}") from error


def exactly(model: AttentionModel) -> AbstractContextManager[object]:
    """Without the rounding to float32 that some models do inside, where the model's precision is finer."""
    return KeepFloat64() if model.dtype == torch.float64 else nullcontext()


def _checked_image(model: AttentionModel) -> ImageClassifier:
    reader = ImageClassifier(model)
    batch = reading_of(model.module).batch(CHECK_SAMPLES, model.dtype)
    own = model.module(batch.to(next(model.module.parameters()).device)).logits
    _expect_agreement(reader, reader.measure(batch), own)
    return reader


def _checked_text(reader: OwnHeadClassifier) -> OwnHeadClassifier:
    """The reader, with the reason why mass cannot be split if a token in two halves is not read as the token."""
    ids = _ids(reader.model)
    own = reader.logits_of_ids(ids)
    measure = reader.measure(ids)
    _expect_agreement(reader, measure, own)
    return replace(reader, refusal=_refusal(reader, _with_halves(measure), own))


def _expect_agreement(reader: Classifier, measure: TokenMeasure, own: Tensor) -> None:
    """A UserError if it does not say what the model says, or there is nothing to choose from."""
    difference, tolerance = relative_difference(reader.logits(measure), own), TOLERANCES[reader.model.dtype]
    if not difference <= tolerance:  # NaN is refused too
        raise UserError(
            f"logits of {reader.model.name} from its input embeddings differ from its own by {difference:.1e} "
            f"relative, more than {tolerance:.0e}; refused"
        )
    if own.shape[-1] < 2:
        raise UserError(f"{reader.model.name} is not a classifier: it has a single output, so nothing can flip.")


def _refusal(reader: OwnHeadClassifier, halves: TokenMeasure, own: Tensor) -> str | None:
    if reader.mask_for(halves) is None:
        return DIFFERENT_WINDOWS
    try:
        difference = relative_difference(reader.logits(halves), own)
    except Exception as error:
        return f"it takes no mask with weights ({reason(error)})"
    if difference <= TOLERANCES[reader.model.dtype]:
        return None
    return f"a token written as two halves at its position changes the logits by {difference:.1e} relative"


def _ids(model: AttentionModel) -> Int[Tensor, "1 n"]:
    """Arbitrary token ids without padding."""
    ids = reading_of(model.module).batch(1, model.dtype)
    padding = getattr(model.module.config, "pad_token_id", None)
    return torch.where(ids == padding, (ids + 1) % (model.vocabulary or 1), ids) if padding is not None else ids


def _with_halves(measure: TokenMeasure) -> TokenMeasure:
    """The first, a middle and the last token as two atoms of half the mass each."""
    index = torch.arange(measure.length)
    twice = (index == 0) | (index == measure.length // 2) | (index == measure.length - 1)
    counts = torch.where(twice, 2, 1)
    again = index.repeat_interleave(counts)
    return TokenMeasure(
        measure.points[:, again], (measure.masses / counts.to(measure.masses))[:, again], measure.positions[:, again]
    )
