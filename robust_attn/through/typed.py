"""Flips that a person could type: tokens repeated, inserted or swapped, ranked by gradient, each really read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from robust_attn.attacks.discrete import repeated_at
from robust_attn.attention.measure import TokenMeasure
from robust_attn.through.classifier import TextClassifier

TOGETHER = 32
"""Texts that are read in one batch at most."""
SPARE = 4
"""How many times more texts are ranked than read: some would be read back as other tokens."""


@dataclass(frozen=True, eq=False)
class Edited:
    """A text after one edit, and the margin of the clean prediction there: below zero it has flipped."""

    ids: Int[Tensor, " n"]
    edit: str
    margin: float = torch.inf


@dataclass(frozen=True, eq=False)
class TypedFlip:
    """The text that flips with the edits that made it, None where none was found; `reads` counts texts read."""

    ids: Int[Tensor, " n"] | None
    edits: tuple[str, ...]
    reads: int


@dataclass(frozen=True, eq=False)
class _Slot:
    """A place of a text at which another token may stand, and how fast the margin falls along its embedding."""

    ids: Int[Tensor, " n"]
    place: int
    slope: Float[Tensor, " d"]


@final
@dataclass(frozen=True, eq=False)
class Typist:
    """Up to `edits` edits, one after another, each the best of about `reads` texts really read.

    All repetitions are read; then the insertions and the swaps that the gradient ranks first, half of the rest each.
    Texts that the tokenizer would read back as other tokens are left out. So a flip is real; that there is none with
    fewer edits is not promised.
    """

    classifier: TextClassifier
    label: int
    edits: int = 1
    reads: int = 192

    def flip(self, ids: Int[Tensor, " n"]) -> TypedFlip:
        """The first text found that flips."""
        done: list[str] = []
        reads = 0
        for _ in range(self.edits):
            found = list(self._edited(ids))
            reads += len(found)
            if not found:
                break
            best = min(found, key=lambda each: each.margin)
            ids, done = best.ids, [*done, best.edit]
            if best.margin < 0:
                return TypedFlip(ids, tuple(done), reads)
        return TypedFlip(None, (), reads)

    def _edited(self, ids: Int[Tensor, " n"]) -> Iterator[Edited]:
        """Texts one edit away, as they were read."""
        places = self.classifier.typed(ids).nonzero()[:, 0].tolist()
        longest, left = self.classifier.model.max_tokens, max(self.reads - len(places), 2)
        if places and (longest is None or len(ids) < longest):
            repeats = torch.stack([repeated_at(ids, place) for place in places])
            margins, slopes = self._slopes(repeats)
            for place, text, margin in zip(places, repeats, margins.tolist(), strict=True):
                yield Edited(text, f"repeat {self._word(ids[place])}", margin)
            slots = [
                _Slot(text, at + 1, slope[at + 1]) for at, text, slope in zip(places, repeats, slopes, strict=True)
            ]
            yield from self._read(self._filled(slots, left // 2, "insert"))
            left -= left // 2
        _, slopes = self._slopes(ids[None])
        yield from self._read(self._filled([_Slot(ids, place, slopes[0, place]) for place in places], left, "swap in"))

    def _filled(self, slots: Sequence[_Slot], count: int, kind: str) -> list[Edited]:
        """The slots with the tokens that let the margin fall most, to first order."""
        if not slots:
            return []
        slopes = torch.stack([slot.slope for slot in slots])
        here = torch.stack([self._table[slot.ids[slot.place]] for slot in slots])
        scores = slopes @ self._table.T - (slopes * here).sum(-1, keepdim=True)
        scores = scores.masked_fill(~self._allowed, -torch.inf)
        texts: list[Edited] = []
        for index in scores.flatten().topk(min(SPARE * count, scores.numel())).indices.tolist():
            slot, token = slots[index // scores.shape[1]], index % scores.shape[1]
            text = slot.ids.clone()
            text[slot.place] = token
            if bool(self._allowed[token]) and int(slot.ids[slot.place]) != token and self._reads_back(text):
                texts.append(Edited(text, f"{kind} {self._word(text[slot.place])}"))
            if len(texts) == count:
                break
        return texts

    def _read(self, texts: Sequence[Edited]) -> Iterator[Edited]:
        for begin in range(0, len(texts), TOGETHER):
            part = texts[begin : begin + TOGETHER]
            with torch.no_grad():
                margins = self._margins(self.classifier.measure(torch.stack([each.ids for each in part])))
            for each, margin in zip(part, margins.tolist(), strict=True):
                yield Edited(each.ids, each.edit, margin)

    def _slopes(self, texts: Int[Tensor, "k n"]) -> tuple[Float[Tensor, " k"], Float[Tensor, "k n d"]]:
        """Margins of texts, and how fast each falls along every embedding."""
        found = [self._slope(part) for part in texts.split(TOGETHER)]
        return torch.cat([margins for margins, _ in found]), torch.cat([slopes for _, slopes in found])

    def _slope(self, texts: Int[Tensor, "k n"]) -> tuple[Float[Tensor, " k"], Float[Tensor, "k n d"]]:
        measure = self.classifier.measure(texts)
        with torch.enable_grad():
            points = measure.points.detach().requires_grad_(True)
            margins = self._margins(measure.with_points(points))
            (slopes,) = torch.autograd.grad(-margins.sum(), points)
        return margins.detach(), slopes

    def _margins(self, measure: TokenMeasure) -> Float[Tensor, " k"]:
        logits = self.classifier.logits(measure)
        others = torch.cat([logits[:, : self.label], logits[:, self.label + 1 :]], dim=1)
        return logits[:, self.label] - others.amax(1)

    @cached_property
    def _table(self) -> Float[Tensor, "vocabulary d"]:
        """The embedding of every token."""
        every = torch.arange(self.classifier.model.vocabulary or 0)
        return self.classifier.measure(every[None]).points[0]

    @cached_property
    def _allowed(self) -> Bool[Tensor, " vocabulary"]:
        """Tokens that can be typed: not those that begin, end or pad a text."""
        allowed = self.classifier.typed(torch.arange(len(self._table)))
        special = getattr(self.classifier.model.tokenizer, "all_special_ids", ())
        allowed[[token for token in special if token < len(allowed)]] = False
        return allowed

    def _reads_back(self, ids: Int[Tensor, " n"]) -> bool:
        """Whether the tokenizer, given the text, makes these tokens of it; without a tokenizer ids are all there is."""
        tokenizer = self.classifier.model.tokenizer
        if tokenizer is None:
            return True
        inside = ids[self.classifier.typed(ids)].tolist()
        return bool(self.classifier.model.encode(tokenizer.decode(inside)) == inside)

    def _word(self, token: Int[Tensor, ""]) -> str:
        tokenizer = self.classifier.model.tokenizer
        return str(int(token)) if tokenizer is None else str(tokenizer.decode([int(token)]))
