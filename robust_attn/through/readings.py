"""What a classifier reads, one input at a time, with the row that it comes from and the label that the data give it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int, Shaped
from torch import Tensor

from robust_attn.data.images import digit_labels
from robust_attn.data.rows import Origin
from robust_attn.data.settings import Digits, HubText, ImageFolder, Prose, Rows, TextFile
from robust_attn.data.source import Source, image_origins, read_row, text_rows
from robust_attn.models.model import AttentionModel
from robust_attn.through.contract import Classifier, TextClassifier
from robust_attn.through.inputs import batch_of


@dataclass(frozen=True, eq=False)
class Reading:
    """Token ids [1, n] or pixels [1, channels, height, width]."""

    batch: Shaped[Tensor, "1 ..."]
    origin: Origin

    @property
    def ids(self) -> Int[Tensor, " n"] | None:
        """The token ids, None for an image."""
        return None if self.batch.is_floating_point() else self.batch[0]


def readings(batch: Shaped[Tensor, "samples ..."], origins: Sequence[Origin] = ()) -> list[Reading]:
    """The samples of a batch, one by one."""
    return [
        Reading(batch[index : index + 1], origins[index] if origins else Origin(index)) for index in range(len(batch))
    ]


def readings_of(source: Source, classifier: Classifier, *, tokens: int, samples: int) -> list[Reading]:
    """Rows of one's own as they are, cut after `tokens`, never padded; windows of running text; images."""
    model = classifier.model
    if isinstance(classifier, TextClassifier) and isinstance(source, Prose | TextFile | HubText | Rows):
        longest = tokens if model.max_tokens is None else min(tokens, model.max_tokens)
        rows = text_rows(source, samples)
        if rows is not None:
            read = [read_row(row, model, tokens=longest, special_tokens=source.special_tokens) for row in rows]
            return [
                Reading(torch.tensor([row.ids]), Origin(place, row.index, row.label, row.cut))
                for place, row in enumerate(read)
            ]
    batch = batch_of(source, classifier, tokens=tokens, samples=samples)
    return readings(batch, _origins(source, model, samples))


def _origins(source: Source, model: AttentionModel, samples: int) -> Sequence[Origin]:
    """Labels of images, where they have some."""
    match source:
        case Digits():
            return [Origin(place, label=label) for place, label in enumerate(digit_labels(samples))]
        case ImageFolder():
            return image_origins(source, model, samples)
        case _:
            return ()
