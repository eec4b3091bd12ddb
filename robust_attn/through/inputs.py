"""What a classifier reads in a run: token ids between the ends of a text, or pixels."""

from __future__ import annotations

from pathlib import Path

from torch import Tensor

from robust_attn.data import images, text
from robust_attn.data.hub import hub_text
from robust_attn.data.source import Digits, Gaussian, HubText, ImageFolder, Prose, Source, Sphere, TextFile
from robust_attn.through.classifier import Classifier, ImageClassifier, TextClassifier
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
    match source:
        case Prose():
            content = text.prose()
        case TextFile(path):
            content = text.read_text(Path(path).expanduser())
        case HubText(dataset, split, column):
            content = hub_text(dataset, split, column)
        case Gaussian() | Sphere() | Digits() | ImageFolder():
            raise UserError(f"{model.name} as a whole reads text: use data=prose, data=text or data=hub.")
    if model.max_tokens is not None and tokens > model.max_tokens:
        raise UserError(f"{model.name} reads at most {model.max_tokens} tokens, got tokens={tokens}.")
    inside = tokens - classifier.ends
    if inside < 1:
        raise UserError(f"tokens must be at least {classifier.ends + 1} for {model.name}, got {tokens}.")
    return classifier.framed(text.windows(model.encode(content), inside, samples))


def _pixels(source: Source, classifier: ImageClassifier, samples: int) -> Tensor:
    match source:
        case Digits():
            return images.digits(samples, classifier.shape)
        case ImageFolder(path):
            return images.image_folder(Path(path).expanduser(), samples, classifier.shape)
        case _:
            raise UserError(f"{classifier.model.name} as a whole reads images: use data=digits or data=images.")
