"""What a classifier reads in a run: token ids between the ends of a text, or pixels."""

from __future__ import annotations

from torch import Tensor

from robust_attn.data import text
from robust_attn.data.settings import Digits, HubText, ImageFolder, Prose, TextFile
from robust_attn.data.source import Source, pixels_of, text_of
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


def _ids(source: Source, classifier: TextClassifier, tokens: int, samples: int) -> Tensor:
    model = classifier.model
    if not isinstance(source, Prose | TextFile | HubText):
        raise UserError(f"{model.name} as a whole reads text: use data=prose, data=text or data=hub.")
    if model.max_tokens is not None and tokens > model.max_tokens:
        raise UserError(f"{model.name} reads at most {model.max_tokens} tokens, got tokens={tokens}.")
    inside = tokens - classifier.ends
    if inside < 1:
        raise UserError(f"tokens must be at least {classifier.ends + 1} for {model.name}, got {tokens}.")
    return classifier.framed(text.windows(model.encode(text_of(source)), inside, samples))


def _pixels(source: Source, classifier: ImageClassifier, samples: int) -> Tensor:
    if not isinstance(source, Digits | ImageFolder):
        raise UserError(f"{classifier.model.name} as a whole reads images: use data=digits or data=images.")
    return pixels_of(source, classifier.image, samples)
