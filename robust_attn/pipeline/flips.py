"""The nearest flips of one prediction, in every way that is asked for and that its classifier allows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.budget import Budget, PerToken, Wasserstein
from robust_attn.pipeline.jobs import generator_for
from robust_attn.records.parts import FlipSearch, Motion, TypedFlip
from robust_attn.through.classifier import TextClassifier
from robust_attn.through.flip import Flip, smallest_flip
from robust_attn.through.nearest import Nearest
from robust_attn.through.typed import Typist
from robust_attn.through.victim import Perturbed, Victim

NOTHING = Flip(None, 0)


@dataclass(frozen=True)
class FlipOptions:
    """Which ways are tried, and how hard. No atom of a split is lighter than 1 / `context`."""

    which: tuple[str, ...] = ("move",)
    accuracy: float = 0.05
    steps: int = 16
    restarts: int = 1
    words: int = 64
    context: int = 8192
    edits: int = 1
    reads: int = 192


@dataclass(frozen=True, eq=False)
class Flips:
    """Radii in the norm of the budget, None where a way found nothing or does not apply, and how they were found."""

    radii: Mapping[str, float | None]
    search: FlipSearch
    typed: TypedFlip | None = None


@dataclass(frozen=True, eq=False)
class FlipHunt:
    """One victim, the token ids that it read (None for an image), and the norm in which flips are measured.

    `directions` are where moves begin beside the gradient; `split` is the splitting attack where one was named.
    """

    victim: Victim
    ids: Int[Tensor, " n"] | None
    budget: Budget
    options: FlipOptions
    seed: int
    sample: int
    directions: Sequence[Float[Tensor, "n d"]] = ()
    split: Attack | None = None
    found: dict[str, Flip] = field(default_factory=dict)

    def flips(self) -> Flips:
        """Every way in turn; what moving finds is known to splitting."""
        nearest, options = self._nearest("flip"), self.options
        move = nearest.all_rows() if {"move", "split"} & set(options.which) else NOTHING
        rows = typed_rows(self.victim, self.ids, options.words) if "one_word" in options.which else []
        alone = self._nearest("one_word")
        one, word = alone.one_row(rows)
        split = self._split(move.found) if "split" in options.which else NOTHING
        radii = {"move": move.radius, "one_word": one.radius, "split": self._in_norm(split), "typed": None}
        search = FlipSearch(
            accuracy=options.accuracy,
            radii_tried=move.tried + one.tried + split.tried,
            gradients=nearest.spent.gradients + alone.spent.gradients,
            smallest_mass=None if split.found is None else float(split.found.base.masses.min()),
            words=len(rows),
            word=word,
            motion=None if move.found is None else motion_of(move.found),
        )
        typed = self._typed() if "typed" in options.which else None
        return Flips({way: radii[way] for way in options.which}, search, typed)

    def _nearest(self, purpose: str) -> Nearest:
        options = self.options
        generator = generator_for(self.seed, purpose, self.sample)
        return Nearest(
            self.victim, self.budget, generator, options.steps, options.restarts, options.accuracy, self.directions
        )

    def _split(self, known: Perturbed | None) -> Flip:
        """The nearer of equal pieces and slivers, unless one attack was named; measured by root mean squares."""
        if isinstance(self.budget, PerToken) or not isinstance(self.victim.classifier, TextClassifier):
            return NOTHING
        options, budget = self.options, Wasserstein(0.0, self.budget.support)
        ways = [self.split] if self.split is not None else [
            MassSplit(2, options.steps, options.restarts, masses=masses, context=options.context)
            for masses in (Masses.EQUAL, Masses.SLIVER)
        ]  # fmt: skip
        known = None if known is None else _in_wasserstein(known)
        found = NOTHING
        for way in ways:
            generator = generator_for(self.seed, "split", self.sample)
            flip = flip_by(way, self.victim, budget, generator, accuracy=options.accuracy, known=known)
            nearer = found.radius is None or (flip.radius is not None and flip.radius < found.radius)
            found = Flip(flip.found if nearer else found.found, found.tried + flip.tried)
        return found

    def _in_norm(self, split: Flip) -> float | None:
        """Of n tokens of equal mass, Frobenius norms are sqrt(n) times root mean squares."""
        if split.radius is None or isinstance(self.budget, Wasserstein):
            return split.radius
        return split.radius * math.sqrt(self.victim.base.length)

    def _typed(self) -> TypedFlip | None:
        reader, options = self.victim.classifier, self.options
        if self.ids is None or not isinstance(reader, TextClassifier):
            return None
        found = Typist(reader, self.victim.label, options.edits, options.reads).flip(self.ids)
        tokenizer = reader.model.tokenizer
        return TypedFlip(
            edits=len(found.edits) or None,
            what=found.edits,
            text=None if found.ids is None or tokenizer is None else str(tokenizer.decode(found.ids.tolist())),
            reads=found.reads,
            most_edits=options.edits,
        )


def flip_by(
    attack: Attack,
    victim: Victim,
    budget: Budget,
    generator: torch.Generator,
    *,
    accuracy: float,
    known: Perturbed | None = None,
) -> Flip:
    """The smallest flip by any attack, up to displacements as large as the input; never above one that is known."""
    largest = float(budget.norm(victim.base.points, victim.base))

    def flip_at(radius: float, known: Perturbed | None) -> Perturbed | None:
        tries = victim.candidates(attack, type(budget)(radius, budget.support), generator, known)
        return next((found for found in tries if found.flipped), None)

    start = budget.radius if budget.radius > 0 else largest / 100
    return smallest_flip(flip_at, start=start, largest=largest, accuracy=accuracy, known=known)


def typed_rows(victim: Victim, ids: Int[Tensor, " n"] | None, limit: int | None = None) -> list[int]:
    """The first few tokens that a person typed; none of an image."""
    if ids is None or not isinstance(victim.classifier, TextClassifier):
        return []
    rows: list[int] = victim.classifier.typed(ids).nonzero()[:limit, 0].tolist()
    return rows


def motion_of(found: Perturbed) -> Motion:
    """How far every token of a moved input went, to four digits."""
    ways = tuple(float(f"{way:.4g}") for way in found.displacement[0].norm(dim=-1).tolist())
    ones = (1,) * len(ways)
    return Motion(rms=ways, apart=(0.0,) * len(ways), farthest=ways, share=tuple(map(float, ones)), parts=ones)


def _in_wasserstein(found: Perturbed) -> Perturbed:
    """The same with its radius as a root mean square."""
    radius = float(Wasserstein(0.0).norm(found.displacement, found.base)) * (1 + 1e-12)
    return Perturbed(found.base, found.measure, found.logits, found.label, radius)
