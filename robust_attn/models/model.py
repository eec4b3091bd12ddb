"""A loaded model: its attention layers, and what arrives at them when it reads text or images."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Shaped
from torch import Tensor, nn

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.models.adapter import AttachedLayer
from robust_attn.models.generic.as_found import evaluating
from robust_attn.models.hooks import watch
from robust_attn.models.reading import body_of, first_usable
from robust_attn.models.selfcheck import COARSE
from robust_attn.models.texts import Ends, ends_of, equal_lengths
from robust_attn.models.weights import WeightsOrigin
from robust_attn.types import UserError

WORDS = re.compile(r"\w+|[^\w\s]")


@dataclass(frozen=True, eq=False)
class AttentionModel:
    """A model whose layers have been compared with its own forward pass; `differences` are the relative ones found.

    `vocabulary` is None for a model of images, `image_shape` (channels, height, width) None for a model of text;
    `max_tokens` is None where positions have no limit.
    """

    name: str
    architecture: str
    origin: WeightsOrigin
    module: nn.Module
    attached: tuple[AttachedLayer, ...]
    differences: tuple[float, ...]
    max_tokens: int | None
    vocabulary: int | None
    image_shape: tuple[int, int, int] | None
    tokenizer: Any | None
    image_processor: Any | None = None

    def __repr__(self) -> str:
        return f"AttentionModel({self.name!r}, {self.origin.label}, {self.layers} attention layers)"

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return next(self.module.parameters()).device

    def on(self, device: torch.device) -> AttentionModel:
        """The same model on another device; the module itself goes there."""
        attached = tuple(replace(each, weights=each.weights.on(device)) for each in self.attached)
        return replace(self, module=self.module.to(device), attached=attached)

    @property
    def layers(self) -> int:
        """Number of attention layers."""
        return len(self.attached)

    @property
    def takes_images(self) -> bool:
        """Whether a batch is pixels rather than token ids."""
        return self.image_shape is not None

    @property
    def hashes_words(self) -> bool:
        """Whether text is read without a tokenizer, as only random weights may: see `encode`."""
        return self.vocabulary is not None and self.tokenizer is None and not self.origin.trained

    @property
    def class_names(self) -> Mapping[int, str]:
        """Names of classes by their numbers, as the model's configuration has them; empty where it has none."""
        names = getattr(self.module.config, "id2label", None) or {}
        return {int(number): str(name) for number, name in names.items()}

    @property
    def dtype(self) -> torch.dtype:
        """Precision of the weights."""
        return next(self.module.parameters()).dtype

    def layer(self, index: int) -> AttentionLayer:
        """Attention layer `index`, counted from 0; the weights of a bfloat16 model are handed out in float32."""
        weights = self._attached(index).weights
        return weights.to(torch.float32) if self.dtype in COARSE else weights

    def inputs_at(
        self, layers: int | Sequence[int], batch: Shaped[Tensor, "samples ..."] | Sequence[str]
    ) -> dict[int, TokenMeasure]:
        """The inputs of the layers, from one pass of the whole model: uniform measures batched over samples.

        `batch` is token ids [samples, n], pixel values [samples, channels, height, width], or a list of texts. Texts
        are read with the special tokens that the tokenizer adds; those of one length run together, and shorter ones
        end in padding, atoms of mass zero, which the model never sees. The model runs in its own precision; what it
        computes in bfloat16 is handed out in float32.
        """
        layers = [layers] if isinstance(layers, int) else layers
        if not isinstance(batch, Tensor):
            return self._inputs_of_texts(layers, [batch] if isinstance(batch, str) else batch)
        sources = [self._attached(index).source for index in layers]
        with evaluating(self.module):
            watched = watch(body_of(self.module), self._checked(batch), sources=sources)
        inputs = [points.to(torch.float32) if self.dtype in COARSE else points for points in watched.inputs]
        return {index: TokenMeasure.uniform(points) for index, points in zip(layers, inputs, strict=True)}

    def _inputs_of_texts(self, layers: Sequence[int], texts: Sequence[str]) -> dict[int, TokenMeasure]:
        ids = [self.read(text) for text in texts]
        if not ids:
            raise UserError("expected at least one text, got none")
        lengths = torch.tensor([len(each) for each in ids])
        padded: dict[int, Tensor] = {}
        for length, places in equal_lengths(ids).items():
            found = self.inputs_at(layers, torch.tensor([ids[place] for place in places]))
            for index, measure in found.items():
                size = (len(ids), int(lengths.max()), measure.width)
                padded.setdefault(index, measure.points.new_zeros(size))[places, :length] = measure.points
        return {index: TokenMeasure.padded(points, lengths.to(points.device)) for index, points in padded.items()}

    def encode(self, text: str) -> list[int]:
        """Token ids of the text without special tokens.

        Random weights need no tokenizer: then words and punctuation marks, each with the id
        first + crc32(word) mod (vocabulary - first), where `first` leaves out the padding id and those before it.
        What trained weights learned of an id is about the token of their own tokenizer, so they do need one.
        """
        if self.vocabulary is None:
            raise UserError(f"{self.name} reads images, not text")
        if self.tokenizer is not None:
            ids: list[int] = self.tokenizer.encode(text, add_special_tokens=False, verbose=False)
            return ids
        if self.origin.trained:
            raise UserError(
                f"{self.name} has trained weights ({self.origin.label}) but no tokenizer, so it cannot read text: name "
                "a folder that has its tokenizer (model.tokenizer=FOLDER), or take drawn tokens (data=gaussian)"
            )
        first = first_usable(self.module.config, self.vocabulary)
        return [first + zlib.crc32(word.encode()) % (self.vocabulary - first) for word in WORDS.findall(text)]

    def read(self, text: str, *, special_tokens: bool = True) -> list[int]:
        """Token ids of a whole text that has some, with the special tokens that the tokenizer adds by itself."""
        ids = self.encode(text)
        if not ids:
            raise UserError("the text has no tokens")
        return (ends_of(self.tokenizer, text) if special_tokens else Ends()).around(ids)

    def spelled(self, text: str, ids: Sequence[int], spans: Sequence[slice]) -> list[list[str]]:
        """The tokens in each span of the text's `ids` as a person reads them; words where there is no tokenizer."""
        if self.tokenizer is None:
            words = WORDS.findall(text)
            return [words[span] for span in spans]
        decode = self.tokenizer.decode
        return [[str(decode([each], clean_up_tokenization_spaces=False)) for each in ids[span]] for span in spans]

    def tokens_at(self, layer: int, text: str, *, special_tokens: bool = False) -> TokenMeasure:
        """The input of a layer when the model reads the text: one sample, points [n, d]."""
        ids = self.read(text, special_tokens=special_tokens)
        return self.inputs_at([layer], torch.tensor([ids]))[layer].sample(0)

    def _attached(self, index: int) -> AttachedLayer:
        if not 0 <= index < self.layers:
            raise UserError(f"{self.name} has no layer {index}; its layers are 0 to {self.layers - 1}")
        return self.attached[index]

    def _checked(self, batch: Tensor) -> Tensor:
        device = self.device
        if self.image_shape is not None:
            if tuple(batch.shape[1:]) != self.image_shape or not batch.is_floating_point():
                raise UserError(f"{self.name} reads images of shape {self.image_shape}, got {tuple(batch.shape[1:])}")
            return batch.to(device, self.dtype)
        if batch.ndim != 2 or batch.is_floating_point():
            raise UserError(f"{self.name} reads token ids [samples, tokens], got {tuple(batch.shape)} of {batch.dtype}")
        if self.max_tokens is not None and batch.shape[1] > self.max_tokens:
            raise UserError(f"{self.name} reads at most {self.max_tokens} tokens, got {batch.shape[1]}")
        if (
            self.vocabulary is not None
            and batch.numel()
            and not 0 <= int(batch.min()) <= int(batch.max()) < self.vocabulary
        ):
            raise UserError(f"token ids must be below the vocabulary of {self.vocabulary}, got {int(batch.max())}")
        return batch.to(device, torch.int64)
