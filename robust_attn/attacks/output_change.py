"""How far a layer's output moves, as a target: what only a layer can tell an attack about where to begin."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import ClassVar, final

import torch
from jaxtyping import Float
from torch import Tensor

from robust_attn.attacks.ascent import (
    FINALISTS,
    Ascent,
    Objective,
    ascend_all,
    measured,
    output_change,
    repeated,
    rough_change,
)
from robust_attn.attacks.copies import QueryBlocks, Split, antisymmetric_starts, cut, equal_parts, query_blocks
from robust_attn.attacks.head_starts import divided_starts
from robust_attn.attacks.settings import MassSplitSettings
from robust_attn.attacks.sliver import Look, best_sliver
from robust_attn.attacks.starts import STARTING_GRADIENTS, exact_change, looked_at, move_starts, strongest
from robust_attn.attacks.target import Proposal, Starts, Steps, Target, Values, supported
from robust_attn.attacks.torchattacks_box import Boxed, BudgetBox, Logits
from robust_attn.attacks.torchattacks_table import CLASSES, Suited
from robust_attn.attention.difference import Difference
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Budget

SINGLE_FROM = 2**18
"""Weights of queries, keys and values from which a search in single precision saves time."""
SINGLE_WAY = 1e-5
"""Of the tokens' radius: a budget from which displacements have two digits in single precision, and mostly more."""
LIGHT = 1e-4
"""Atoms lighter than this go so far that they are searched for in float64."""
BEHIND = 0.7
"""Pieces apart that begin below this part of the move have a query part below its constant, by more than ten steps of
power iteration may have missed."""
NUDGE = 1e-3
"""How far beside the tokens the change is looked at where an attack starts at the tokens, as a part of the budget."""
SMALLEST_CHANGE = 1e-12
"""Logit of `unchanged` for attacks that must fool: any change beyond rounding has a larger one."""


@final
@dataclass(frozen=True, eq=False)
class OutputChange(Target):
    """The change of a layer's output in the norm of the budget. All starts of all samples are followed together."""

    layer: AttentionLayer
    measure: TokenMeasure
    steps: Steps = field(default_factory=Steps)
    differences: list[tuple[TokenMeasure, Difference | None]] = field(default_factory=list, repr=False)
    """What was found around the measures that were searched so far."""
    splits_hold_moves: ClassVar[bool] = True

    def rough(self, base: TokenMeasure) -> Difference | None:
        """The layer around `base` in single precision, in which a search is made; None where it is made as it is."""
        if self.layer.dtype != torch.float64 or self.layer.stacked_projections.numel() < SINGLE_FROM:
            return None
        if float(base.masses[base.present].min()) < LIGHT:
            return None
        for known, found in self.differences:
            if known is base:
                return found
        self.differences.append((base, Difference.at(self.layer, base, single=self.single_layer)))
        return self.differences[-1][1]

    @cached_property
    def single_layer(self) -> AttentionLayer:
        """The layer in single precision."""
        return self.layer.to(torch.float32)

    def objective(self, base: TokenMeasure, budget: Budget) -> Objective:
        """The output change and its gradient."""
        return self.counted(output_change(self.layer, base, budget))

    def values(self, base: TokenMeasure, budget: Budget) -> Values:
        """The output change."""
        reference = self.layer(base)
        return lambda field: budget.norm(self.layer(base.with_points(base.points + field)) - reference, base)

    def moves(self, budget: Budget, generator: torch.Generator, *, random: int) -> Iterator[Starts]:
        """Singular directions, single tokens, random ones, and divided heads.

        Where the budget is so small that all of them act as the derivative says, only the best: there is one summit.
        """
        rough = self.rough(self.measure)
        layer, measure = (self.layer, self.measure) if rough is None else (rough.layer, rough.base)
        change = exact_change(layer, measure) if rough is None else lambda field: rough.moved(field).value
        starts = move_starts(layer, measure, budget, generator, random=random, change=change)
        self.steps.add(STARTING_GRADIENTS)
        seen = looked_at(measure, budget, starts, change)
        if seen.linear:
            starts = seen.best(1)
        else:
            starts = torch.cat((starts, divided_starts(layer, measure, budget, generator, change)))
        yield Starts(self.measure, budget, starts.to(self.measure.points.dtype), linear=seen.linear)

    def for_splitting(self, way: MassSplitSettings, budget: Budget, *, alone: bool) -> tuple[Target, Budget]:
        """Slivers in float64. Alone they stay in the support, by default a sample's largest token norm, as do moves."""
        if not way.slivers:
            return self, budget
        layer, measure = self.layer.to(torch.float64), self.measure.to(torch.float64)
        return OutputChange(layer, measure, self.steps), supported(budget) if alone else budget

    def splits(
        self,
        way: MassSplitSettings,
        moved: Proposal,
        budget: Budget,
        generator: torch.Generator,
        *,
        ahead: Float[Tensor, "samples"] | None = None,
    ) -> Iterator[Starts]:
        """The move with the pieces together, pieces apart, and random ones; no slivers where none comes near `ahead`.

        Pieces that are together have the same gradients and stay so: from a move that has arrived nobody climbs again.
        The others go by threes, so that each of them climbs: a few roaming steps do not tell which will be highest.
        Where all act as the derivative says, pieces apart reach the largest query part at most, or else come together
        again (docs/proofs/splitting.md#copies): where they begin far behind the move, it is the answer.
        """
        if way.slivers:
            found = self._slivers(way, budget, generator, ahead)
            if found is None:
                return
            split, apart = found
        else:
            split, apart = self._equal(way, budget, generator)
        together = budget.project(split.lifted(moved.displacement), split.base)
        random = [budget.sample(split.base, generator)[None] for _ in range(way.restarts)]
        others = torch.cat([apart, *random])
        starts = torch.cat([together[None], others])
        rough = self.rough(split.base)
        change = exact_change(self.layer, split.base) if rough is None else lambda field: rough.moved(field).value
        seen, arrived = looked_at(split.base, budget, starts, change), len(moved.history) <= way.steps
        if arrived and seen.linear and bool((seen.changes[1:] < BEHIND * seen.changes[0]).all()):
            yield Starts(split.base, budget, together[None], fixed=True, history=moved.history)
        elif arrived and len(others):
            others = strongest(split.base, budget, others, 1, change) if seen.linear else others
            for some in others.split(FINALISTS):
                yield Starts(split.base, budget, some, summit=together, linear=seen.linear)
        else:
            starts = strongest(split.base, budget, starts, 2, change) if seen.linear else starts
            yield Starts(split.base, budget, starts, linear=seen.linear)

    def ascents(self, starts: Starts, *, steps: int) -> Iterator[Ascent]:
        """One of all starts: large layers are searched in single precision, and what that finds is measured.

        Where the way up is long, places and the memory of the climb stay in double precision: slow ascents need that.
        """
        base, budget, fields, summit = starts.base, starts.budget, starts.fields, starts.summit
        rough = self.rough(base)
        if rough is None:
            objective_at = partial(self.objective, budget=budget)
            yield ascend_all(objective_at, base, budget, fields, steps=steps, summit=summit)
            return

        def roughly(many: TokenMeasure) -> Objective:
            return self.counted(rough_change(rough, many, budget))

        here, dtype = (rough.base, torch.float32) if starts.linear else (base, fields.dtype)
        last = None if summit is None else summit.to(dtype)
        found = ascend_all(roughly, here, budget, fields.to(dtype), steps=steps, summit=last)
        fields = fields if summit is None else torch.cat((summit[None], fields))
        many, change = repeated(base, len(fields) + 1), exact_change(self.layer, base)
        places = budget.project(torch.cat((found.displacement.to(fields)[None], fields)), many)
        yield measured(found, places, lambda places: budget.norm(change(places), many))

    def boxed(self, index: int, budget: Budget, suited: Suited, generator: torch.Generator) -> Boxed:
        """The change as a logit of a stand-in classifier; the label is `unchanged`."""
        sample = self.measure.sample(index)
        return Boxed(BudgetBox(sample, budget), change_logits(self.layer, sample, budget, suited, generator), 0)

    def layer_for(self, attack: str) -> AttentionLayer:  # noqa: ARG002
        """Itself."""
        return self.layer

    def _equal(
        self, way: MassSplitSettings, budget: Budget, generator: torch.Generator
    ) -> tuple[Split, Float[Tensor, "starts *batch atoms d"]]:
        """Equal pieces of all tokens or of the most influential ones, and how they first part."""
        blocks, some = self._query_blocks(generator), way.some_tokens
        chosen = None if some is None or some >= self.measure.length else blocks.gain.topk(some, dim=-1).indices
        split = equal_parts(self.measure, way.copies, chosen)
        if way.copies == 1:
            return split, self.measure.points.new_zeros(0, *split.base.points.shape)
        return split, antisymmetric_starts(split, budget, blocks)

    def _query_blocks(self, generator: torch.Generator) -> QueryBlocks:
        """What tokens can use when their pieces leave one another, in the measure's own precision."""
        rough, dtype = self.rough(self.measure), self.measure.points.dtype
        layer, measure = (self.layer, self.measure) if rough is None else (rough.layer, rough.base)
        found = query_blocks(layer, measure, generator)
        return QueryBlocks(found.gain.to(dtype), found.direction.to(dtype))

    def _slivers(
        self,
        way: MassSplitSettings,
        budget: Budget,
        generator: torch.Generator,
        ahead: Float[Tensor, "samples"] | None,
    ) -> tuple[Split, Float[Tensor, "starts *batch atoms d"]] | None:
        """The best sliver of each sample, cut, and its way; None where a first look finds none that could be ahead."""
        samples = [self.measure.sample(index) for index in range(self.measure.points.shape[0])]
        looks = [None] * len(samples) if ahead is None else self._looks(budget, ahead)
        found = [
            best_sliver(self.layer, each, budget, generator, lightest=way.lightest, look=look)
            for each, look in zip(samples, looks, strict=True)
        ]
        if ahead is not None and all(sliver.mass == 0 for sliver in found):
            return None
        source = torch.tensor([sliver.source for sliver in found], device=self.layer.device)
        masses = torch.tensor([sliver.mass for sliver in found], dtype=torch.float64, device=self.layer.device)
        split = cut(self.measure, source, masses)
        sent = torch.zeros_like(split.base.points)
        sent[:, -1] = torch.stack([sliver.place for sliver in found]) - split.base.points[:, -1]
        return split, sent[None]

    def _looks(self, budget: Budget, ahead: Float[Tensor, "samples"]) -> list[Look]:
        """What slivers are up against, and the layer in single precision where that can tell a token from its place."""
        small = self.layer.stacked_projections.numel() < SINGLE_FROM
        near = budget.radius < SINGLE_WAY * float(self.measure.radius.max())
        layer = self.layer if small or near else self.single_layer
        return [Look(layer, value) for value in ahead.tolist()]


def change_logits(
    layer: AttentionLayer, measure: TokenMeasure, budget: Budget, suited: Suited, generator: torch.Generator
) -> Logits:
    """Logits of (unchanged, changed, nothing, nothing) at points near one sample: `changed` is c / (1 + c).

    c is the output change in the budget's norm over that of a random displacement, so every usual loss of the label
    `unchanged` grows with it and none saturates. The logit of `unchanged` is 1, which is never reached, or next to
    zero for attacks that must fool. The norm has no gradient at the tokens, so attacks that start there see the change
    at points a little beside, the same all the time.
    """
    reference, aside = layer(measure), budget.sample(measure, generator)
    scale = budget.norm(layer(measure.with_points(measure.points + aside)) - reference, measure)
    scale = torch.where(scale > 0, scale, torch.ones_like(scale))
    nudge = NUDGE * aside if suited.from_centre else torch.zeros_like(aside)

    def logits(points: Float[Tensor, "samples n d"]) -> Float[Tensor, "samples classes"]:
        masses, positions = (part.expand(points.shape[:-1]) for part in (measure.masses, measure.positions))
        many = TokenMeasure(points + nudge, masses, positions)
        change = budget.norm(layer(many) - reference, many) / scale
        unchanged = torch.full_like(change, SMALLEST_CHANGE if suited.must_fool else 1.0)
        nothing = [-torch.ones_like(change)] * (CLASSES - 2)
        return torch.stack([unchanged, change / (1 + change), *nothing], dim=-1)

    return logits
