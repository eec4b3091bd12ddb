"""Slivers: a small mass cut from one token and sent far. Its size, its source and its destination are all searched for.

In a Wasserstein budget eps a mass t may travel eps / sqrt(t), and inside the support no farther than across it. The
farther it goes the less it may weigh, and the attention that it draws grows exponentially with the way it goes: so t is
the most that the budget allows at a destination, and the search is one over destinations, from many starts at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.ascent import Objective, climb
from robust_attn.attacks.copies import query_blocks
from robust_attn.attacks.settings import SMALLEST_MASS
from robust_attn.attacks.sliver_field import SliverField
from robust_attn.attention.jacobian import pull_keys
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.places import standard_normal
from robust_attn.budget import Budget, PerToken

FIRST_STEP = 0.3
"""Of the diameter of the support: the first step of an ascent on a destination."""
SCREENING_STEPS = 16
SEARCH_STEPS = 24
FINALISTS = 6
LOOKS = ((16, 5, 0.3), (None, 8, 0.55))
"""First so many of the starts, then all, go so many steps: below this part of what a sliver must beat there is no hope.

Chosen from searches on MiniLM: of 32 that went on to win the latest had 0.49 and 0.73 of it by then (docs/attacks.md).
"""
RANDOM_PLACES = 12
ROUNDINGS = 8
"""Units of precision that norms of one token computed in two ways may differ by."""
ROUNDED = 1e-9
"""Masses are compared with the least one up to this part."""


@dataclass(frozen=True, eq=False)
class Slivers:
    """Candidates: from which token, and where to."""

    source: Int[Tensor, "c"]
    place: Float[Tensor, "c d"]

    def some(self, which: Int[Tensor, "chosen"]) -> Slivers:
        """Those alone."""
        return Slivers(self.source[which], self.place[which])


@dataclass(frozen=True, eq=False)
class Sliver:
    """The best one found for a sample: `mass` of token `source` goes to `place`, and the output changes by `change`."""

    source: int
    mass: float
    place: Float[Tensor, "d"]
    change: float


@dataclass(frozen=True)
class Look:
    """A change that a sliver must beat, and the layer in the precision in which slivers are searched for."""

    layer: AttentionLayer
    ahead: float


def best_sliver(
    layer: AttentionLayer,
    sample: TokenMeasure,
    budget: Budget,
    generator: torch.Generator,
    *,
    lightest: float = SMALLEST_MASS,
    look: Look | None = None,
) -> Sliver:
    """Of one sample (padding is left out): for every start the best source, then ascent; then sources once more.

    No sliver is lighter than `lightest`; where no token is heavy enough for two such pieces the sliver has no mass. Nor
    has it where a first `look` shows none that could be ahead.
    """
    kept = sample.present.nonzero()[:, 0]
    tokens = TokenMeasure(sample.points[kept], sample.masses[kept], sample.positions[kept])
    limits = (budget.radius, float(budget.support_radius(sample)), lightest)
    search = _search(layer if look is None else look.layer, tokens, *limits)
    places = (search.key_places(), search.query_places(generator), search.random_places(generator))
    sketch, heavy = search.field.sketched(generator), float(tokens.masses.max()) >= 2 * lightest
    ahead = None if look is None else look.ahead
    screened = search.screened(sketch, torch.cat(places, dim=1), ahead) if heavy else None
    if screened is None:
        return Sliver(int(kept[0]), 0.0, tokens.points[0], 0.0)
    found = search.refined(sketch, *screened)
    exact = search if look is None else _search(layer, tokens, *limits)
    last, value = exact.climbed(exact.field, Slivers(found.source, found.place.to(tokens.points)), 0)
    return Sliver(int(kept[last.source[0]]), float(exact.mass(last)[0]), last.place[0], float(value[0]))


def _search(layer: AttentionLayer, tokens: TokenMeasure, eps: float, support: float, lightest: float) -> _Search:
    """At the tokens in the precision of the layer, with a support that has room for them as they are rounded."""
    masses = tokens.masses.to(layer.dtype)
    field = SliverField.of(layer, TokenMeasure(tokens.points.to(layer.dtype), masses, tokens.positions))
    room = float(field.at.measure.radius) * (1 + ROUNDINGS * torch.finfo(layer.dtype).eps)
    return _Search(field, eps, support if layer.dtype == tokens.points.dtype else max(support, room), lightest)


def _hopeless(search: _Search, starts: Slivers, values: Float[Tensor, "starts"], ahead: float) -> bool:
    """Whether starts with these changes are far behind what is `ahead` after a few steps."""
    reached = _looked(search, starts, values)
    return any(change < hope * ahead for change, (_, _, hope) in zip(reached, LOOKS, strict=True))


def _looked(search: _Search, starts: Slivers, values: Float[Tensor, "starts"]) -> Iterator[float]:
    """The change that the best start reaches, at every look."""
    for count, steps, _ in LOOKS:
        top = values.topk(min(count or len(values), len(values))).indices
        _, reached = search.climbed(search.field, starts.some(top), steps)
        yield float(reached.max())


@dataclass(frozen=True, eq=False)
class _Search:
    """What the search works with: the field of slivers, the budget, the support and the least mass."""

    field: SliverField
    eps: float
    support: float
    lightest: float

    @property
    def tokens(self) -> TokenMeasure:
        return self.field.at.measure

    @property
    def room(self) -> PerToken:
        """How far a sliver may go: across the support, or as far as the least mass can."""
        return PerToken(min(2 * self.support, self.eps / math.sqrt(self.lightest)), support=self.support)

    @property
    def horizon(self) -> float:
        """The norm of the farthest starts: the support, or the tokens' own radius where there is none."""
        return self.support if math.isfinite(self.support) else float(self.tokens.radius)

    def mass(self, slivers: Slivers) -> Float[Tensor, "c"]:
        """eps^2 / distance^2, but at most half of the source."""
        squared = (slivers.place - self.tokens.points[slivers.source]).square().sum(-1)
        half = self.tokens.masses[slivers.source] / 2
        return torch.minimum(self.eps * self.eps / squared.clamp_min(torch.finfo(squared.dtype).tiny), half)

    def key_places(self) -> Float[Tensor, "n starts d"]:
        """At the edge, for every source: where queries point on average, or most of them, head by head and together."""
        at = self.field.at
        layer, q = at.layer, at.projections.q
        mean = (self.tokens.masses[:, None] * q).sum(-2)
        top = torch.linalg.svd(q, full_matrices=False).Vh[:, 0]
        aims = torch.stack((mean, top, -top))[:, :, None].expand(-1, -1, self.tokens.length, -1)
        pulled = pull_keys(layer, self.tokens.positions.expand(aims.shape[0], -1), aims).transpose(0, 1)
        together = pulled[:, :1].sum(0, keepdim=True)
        directions = torch.cat((pulled.flatten(0, 1), together.flatten(0, 1))).transpose(0, 1)
        sizes = directions.norm(dim=-1, keepdim=True)
        return self.horizon * directions / sizes.clamp_min(torch.finfo(sizes.dtype).tiny)

    def query_places(self, generator: torch.Generator) -> Float[Tensor, "n starts d"]:
        """Near every source and somewhat farther, both ways along the direction to which its own query reacts most."""
        direction = query_blocks(self.field.at.layer, self.tokens, generator).direction
        near = 1.5 * self.eps * (self.tokens.masses / 2).rsqrt()
        far = torch.maximum(near, torch.full_like(near, 0.1 * self.horizon))
        steps = torch.stack((near, -near, far, -far), dim=-1)
        return self.tokens.points[:, None] + steps[..., None] * direction[:, None]

    def random_places(self, generator: torch.Generator) -> Float[Tensor, "n starts d"]:
        """Anywhere at the edge."""
        noise = standard_normal((RANDOM_PLACES, self.tokens.width), generator, self.tokens.points)
        places = self.horizon * noise / noise.norm(dim=-1, keepdim=True)
        return places.expand(self.tokens.length, *places.shape)

    def screened(
        self, sketch: SliverField, places: Float[Tensor, "n starts d"], ahead: float | None
    ) -> tuple[Slivers, Float[Tensor, "starts"]] | None:
        """What comes of all starts in a few steps, with the changes; None where they are far behind what is `ahead`."""
        starts, values = self.ranked_sources(sketch, places)
        if ahead is not None and _hopeless(self, starts, values, ahead):
            return None
        return self.climbed(self.field, starts, SCREENING_STEPS)

    def refined(self, sketch: SliverField, screened: Slivers, values: Float[Tensor, "starts"]) -> Slivers:
        """The best one, after the best ones went on from their sources and from those that are better now."""
        finalists = screened.some(values.topk(min(FINALISTS, len(values))).indices)
        elsewhere = self.best_sources(sketch, finalists.place.expand(self.tokens.length, *finalists.place.shape))
        both = Slivers(torch.cat((finalists.source, elsewhere.source)), torch.cat((finalists.place, elsewhere.place)))
        last, values = self.climbed(self.field, both, SEARCH_STEPS)
        return last.some(values.argmax()[None])

    def best_sources(self, field: SliverField, places: Float[Tensor, "n starts d"]) -> Slivers:
        """Of every start the source from which it changes the output most; places[i] are the starts of source i."""
        return self.ranked_sources(field, places)[0]

    def ranked_sources(
        self, field: SliverField, places: Float[Tensor, "n starts d"]
    ) -> tuple[Slivers, Float[Tensor, "starts"]]:
        """The same, with the changes."""
        length, count = places.shape[:2]
        source = torch.arange(length, device=places.device).repeat_interleave(count)
        slivers = self._inside(Slivers(source, places.flatten(0, 1)))
        mass = self.mass(slivers)
        with torch.no_grad():
            parts = field.blocks(source.shape[0])
            values = torch.cat([field.change(source[part], mass[part], slivers.place[part]) for part in parts])
        too_light = (self.tokens.masses < 2 * self.lightest * (1 - ROUNDED))[:, None]
        values, best = values.reshape(length, count).masked_fill(too_light, -torch.inf).max(0)
        each = torch.arange(count, device=places.device)
        return Slivers(best, slivers.place.reshape(length, count, -1)[best, each]), values

    def climbed(self, field: SliverField, slivers: Slivers, steps: int) -> tuple[Slivers, Float[Tensor, "c"]]:
        """Ascent on the destinations, each by itself, and the changes reached."""
        home = self._home(slivers)
        start = slivers.place[:, None] - home.points
        objective = self._objective(field, slivers.source)
        found = climb(objective, home, self.room, start, steps=steps, stride=FIRST_STEP)
        return Slivers(slivers.source, (home.points + found.displacement)[:, 0]), found.output_change

    def _objective(self, field: SliverField, source: Int[Tensor, "c"]) -> Objective:
        """The change as a function of the way gone, where the mass follows from the way."""
        home = self.tokens.points[source]

        def objective(displacement: Tensor) -> tuple[Tensor, Tensor]:
            way = displacement[:, 0]
            mass = self.mass(Slivers(source, home + way))
            value, by_mass, by_place = field.slope(source, mass, home + way)
            squared = way.square().sum(-1).clamp_min(torch.finfo(way.dtype).tiny)
            free = mass < self.tokens.masses[source] / 2
            by_way = torch.where(free, -2 * mass * by_mass / squared, torch.zeros_like(mass))
            return value, (by_place + by_way[:, None] * way)[:, None]

        return objective

    def _inside(self, slivers: Slivers) -> Slivers:
        home = self._home(slivers)
        way = self.room.project(slivers.place[:, None] - home.points, home)
        return Slivers(slivers.source, (home.points + way)[:, 0])

    def _home(self, slivers: Slivers) -> TokenMeasure:
        """One atom a candidate, where it comes from."""
        return TokenMeasure.uniform(self.tokens.points[slivers.source][:, None])
