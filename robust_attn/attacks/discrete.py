"""Mass splitting that a person could type: tokens of a text written once more, chosen by gradient, checked by reading.

A token that is repeated has twice the mass. The gradient of the loss with respect to the logarithms of the masses says
to first order which repetition pays; the best few are really written down and read, positions shifted as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from robust_attn.attacks.model_loss import Reader
from robust_attn.attention.measure import TokenMeasure
from robust_attn.types import UserError

Embedding = Callable[[Int[Tensor, "samples n"]], TokenMeasure]
"""The measure that a classifier makes of token ids."""
HALVINGS = 12
STALLED = 1e-6


@dataclass(frozen=True, eq=False)
class Repetition:
    """The text after one more repetition, of the token that was at `place`; `rank` is that of its gradient, from 0.

    `origin` says which token of the first text each token of this one is.
    """

    ids: Int[Tensor, " n"]
    origin: Int[Tensor, " n"]
    place: int
    rank: int
    logits: Float[Tensor, " classes"]

    @property
    def counts(self) -> Int[Tensor, " first"]:
        """How often each token of the first text was repeated."""
        return self.origin.bincount() - 1


@dataclass(frozen=True)
class RepeatTokens:
    """Greedy: up to `repeats` times, of the `candidates` tokens of largest score the one whose text has most loss."""

    repeats: int = 4
    candidates: int = 8

    def __post_init__(self) -> None:
        if self.repeats < 1 or self.candidates < 1:
            raise UserError(f"repeats and candidates must be at least 1, got {self.repeats} and {self.candidates}.")

    def __call__(
        self,
        logits: Reader,
        embedding: Embedding,
        ids: Int[Tensor, " n"],
        label: int,
        *,
        may_repeat: Callable[[Int[Tensor, " n"]], Bool[Tensor, " n"]],
    ) -> tuple[Repetition, ...]:
        """One repetition after another; `may_repeat` says of a text which of its tokens a person may type again."""
        found: list[Repetition] = []
        origin = torch.arange(len(ids), device=ids.device)
        for _ in range(self.repeats):
            place, rank, read = self._next(logits, embedding, ids, label, may_repeat(ids))
            ids, origin = repeated_at(ids, place), repeated_at(origin, place)
            found.append(Repetition(ids, origin, place, rank, read))
        return tuple(found)

    def _next(
        self, logits: Reader, embedding: Embedding, ids: Tensor, label: int, allowed: Bool[Tensor, " n"]
    ) -> tuple[int, int, Float[Tensor, " classes"]]:
        """The place to repeat, the rank of its gradient, and what the classifier says to the text."""
        if not bool(allowed.any()):
            raise UserError("the text has no token that could be repeated.")
        scores = mass_scores(logits, embedding(ids[None]), label).masked_fill(~allowed, -torch.inf)
        places = scores.topk(min(self.candidates, int(allowed.sum()))).indices
        texts = torch.stack([repeated_at(ids, int(place)) for place in places])
        with torch.no_grad():
            read = logits(embedding(texts))
        losses = functional.cross_entropy(read, read.new_full((len(read),), label, dtype=torch.int64), reduction="none")
        best = int(losses.argmax())
        return int(places[best]), best, read[best]


def repeated_at(ids: Int[Tensor, " n"], place: int) -> Int[Tensor, " more"]:
    """The text with the token at `place` written twice."""
    return torch.cat((ids[: place + 1], ids[place:]))


def mass_scores(logits: Reader, measure: TokenMeasure, label: int) -> Float[Tensor, " n"]:
    """The derivative of the loss in a_i where masses are proportional to m_i e^{a_i}, at a = 0; for a batch of one.

    Doubling token i is a_i = log 2. The scores sum to zero: nothing changes if all masses grow alike.
    """
    with torch.enable_grad():
        growth = torch.zeros_like(measure.masses).requires_grad_(True)
        weighted = TokenMeasure(measure.points, (measure.masses.log() + growth).softmax(-1), measure.positions)
        read = logits(weighted)
        loss = functional.cross_entropy(read, torch.tensor([label], device=read.device))
        (scores,) = torch.autograd.grad(loss, growth)
    return scores[0]


@dataclass(frozen=True, eq=False)
class FreeMasses:
    """Repetitions as real numbers that sum to what was allowed, and the logits with those masses."""

    counts: Float[Tensor, " n"]
    logits: Float[Tensor, " classes"]
    loss: float


def best_free_masses(
    logits: Reader, measure: TokenMeasure, label: int, counts: Float[Tensor, " n"], *, steps: int
) -> FreeMasses:
    """The continuous relaxation: token i has mass proportional to 1 + k_i, k >= 0 with the same sum as `counts`.

    Frank-Wolfe with a step that is halved until it helps, from `counts` on, so it is never below them; positions are
    those of the text without repetitions. A vertex is all repetitions on one token.
    """
    total = float(counts.sum())
    loss, gradient, read = _counted(logits, measure, label, counts)
    for _ in range(steps):
        vertex = total * functional.one_hot(gradient.argmax(), len(counts)).to(counts.dtype)
        before, step = loss, 1.0
        for _ in range(HALVINGS):
            candidate = counts + step * (vertex - counts)
            new_loss, new_gradient, new_read = _counted(logits, measure, label, candidate)
            if new_loss > loss:
                counts, loss, gradient, read = candidate, new_loss, new_gradient, new_read
                break
            step /= 2
        if loss - before <= STALLED * loss:
            break
    return FreeMasses(counts, read, loss)


def _counted(logits: Reader, measure: TokenMeasure, label: int, counts: Tensor) -> tuple[float, Tensor, Tensor]:
    """Loss, its gradient in the counts, and the logits, of a batch of one with equal masses times 1 + counts."""
    with torch.enable_grad():
        free = counts.detach().clone().requires_grad_(True)
        masses = ((1 + free) / (1 + free).sum())[None]
        read = logits(TokenMeasure(measure.points, masses, measure.positions))
        loss = functional.cross_entropy(read, torch.tensor([label], device=read.device))
        (gradient,) = torch.autograd.grad(loss, free)
    return float(loss.detach()), gradient, read[0].detach()
