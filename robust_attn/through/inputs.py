"""What a classifier reads in a run: token ids between the ends of a text, or pixels."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from robust_attn.data.settings import Digits, HubText, ImageFolder, Prose, TextFile
from robust_attn.data.source import Source, pixels_of, text_windows
from robust_attn.through.contract import Classifier, TextClassifier
from robust_attn.through.readers import ImageClassifier
from robust_attn.types import UserError


def batch_of(source: Source, classifier: Classifier, *, tokens: int, samples: int) -> Tensor:
    """Token ids [samples, tokens] with the ends of a text among them, or pixels [samples, channels, height, width]."""
    name = classifier.model.name
    match classifier:
        case TextClassifier():
            return _ids(source, classifier, tokens, samples)
        case ImageClassifier():
            return _pixels(source, classifier, samples)
        case _:
            raise UserError(f"{name} reads neither text nor images.")


def ids_of(classifier: TextClassifier, text: str, *, tokens: int | None = None) -> Int[Tensor, "1 n"]:
    """One text as the model reads it, with what its tokenizer puts around it.

    A text that is longer than the model can read, or than `tokens`, is cut at its end.
    """
    model = classifier.model
    ids = model.encode(text)
    if not ids:
        raise UserError("the text has no tokens")
    limits = [limit for limit in (tokens, model.max_tokens) if limit is not None]
    return classifier.framed(torch.tensor([ids[: _inside(classifier, min(limits))] if limits else ids]))


def _inside(classifier: TextClassifier, tokens: int) -> int:
    """How many of the tokens are typed; at least one must be."""
    inside = tokens - classifier.ends
    if inside < 1:
        raise UserError(f"tokens must be at least {classifier.ends + 1} for {classifier.model.name}, got {tokens}.")
    return inside


def _ids(source: Source, classifier: TextClassifier, tokens: int, samples: int) -> Tensor:
    model = classifier.model
    if not isinstance(source, Prose | TextFile | HubText):
        raise UserError(f"{model.name} as a whole reads text: use data=prose, data=text or data=hub.")
    if model.max_tokens is not None and tokens > model.max_tokens:
        raise UserError(f"{model.name} reads at most {model.max_tokens} tokens, got tokens={tokens}.")
    windows = text_windows(source, model, tokens=_inside(classifier, tokens), samples=samples)
    return classifier.framed(torch.tensor([each.ids[each.span] for each in windows], dtype=torch.int64))


def _pixels(source: Source, classifier: ImageClassifier, samples: int) -> Tensor:
    if not isinstance(source, Digits | ImageFolder):
        raise UserError(f"{classifier.model.name} as a whole reads images: use data=digits or data=images.")
    return pixels_of(source, classifier.image, samples, classifier.model.image_processor)
