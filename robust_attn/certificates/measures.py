"""Certificates against splitting: any measure near, or every measure near that has no light pieces."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure, expect_measure
from robust_attn.attention.rounding import UNIT, within_range
from robust_attn.bounds import splitting
from robust_attn.bounds.ball import centre_norms
from robust_attn.bounds.context import SplitConstant, context_bounds
from robust_attn.bounds.joint_norms import joint_norms
from robust_attn.bounds.pieces import Pieces, can_split, least_masses
from robust_attn.bounds.rows import KnownRows, sample_block
from robust_attn.budget import Wasserstein, expect_budget
from robust_attn.certificates.layer import (
    AllBounds,
    Certificate,
    all_bounds,
    as_batch,
    certificates_of,
    constant_upper,
    doubtful,
    of_all,
    path_norms,
)
from robust_attn.spectral.lanczos import LipschitzEstimate
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.spectral.norms import HeadNorms, head_norms
from robust_attn.types import Covers, FieldError, UserError


def certify_measures(
    layer: AttentionLayer,
    measure: TokenMeasure,
    budget: Wasserstein,
    *,
    context: float | None = None,
    seed: int | None = None,
    deterministic: bool = False,
    norms: HeadNorms | None = None,
) -> Certificate:
    """The certificate, as by `certify`, against measures near: tokens are split, and their pieces moved.

    With a `context` N no piece is lighter than 1/N, so that none moves farther than sqrt(N) times the radius: what one
    of N tokens can do. It grows with N, from the certificate of whole tokens on. `seed` and `deterministic` are those
    of `certify`.

    Without one pieces may have any mass. The measures then stay in the budget's support, which must be given: a piece
    that is light enough goes anywhere else, and nothing holds. This is deterministic, and far above `certify` on
    pretrained layers, because slivers of mass really are that strong.
    """
    expect_measure(measure)
    expect_budget(budget)
    batched = as_batch(measure)
    if context is None:
        if budget.support is None:
            raise UserError("Any measure within a W2 distance needs a support: Wasserstein(radius, support=...).")
        return of_all(measure, _any_measure(layer, batched, budget, norms))
    estimate = None if deterministic else context_constant(layer, batched, context=context, seed=seed)
    found = certify_context(layer, batched, budget, context=context, lipschitz=estimate, norms=norms, every_bound=True)
    return of_all(measure, found)


def context_constant(
    layer: AttentionLayer, batch: TokenMeasure, *, context: float, seed: int | None
) -> LipschitzEstimate:
    """The local constant of the tokens written as pieces; of the tokens themselves where none can be split."""
    masses = batch.to(torch.float64)
    constant = split_lipschitz if bool(can_split(masses, context).any()) else local_lipschitz
    return constant(layer, batch, seed=seed)


def certify_context(
    layer: AttentionLayer,
    batch: TokenMeasure,
    budget: Wasserstein,
    *,
    context: float,
    lipschitz: LipschitzEstimate | None,
    norms: HeadNorms | None = None,
    every_bound: bool = False,
    known: KnownRows | None = None,
) -> tuple[Certificate, ...]:
    """Certificates of every sample against all splits into pieces of at least 1 / context.

    `lipschitz` must be the local constant of the split tokens. `every_bound` also asks those on any measure near, which
    matter where pieces may go nearly as far as the support allows. `known` rows of the tokens are not computed again.
    """
    if not isinstance(budget, Wasserstein):
        raise UserError(f"Pieces of a token share its budget in a Wasserstein budget alone, not in {budget.kind}.")
    if not context >= 1:
        raise FieldError("context", f"must be a number of tokens, at least 1, got {context}.")
    layer, batch = layer.to(torch.float64), batch.to(torch.float64)
    supports = budget.support_radius(batch)
    if math.isinf(context) and not bool(torch.isfinite(supports).all()):
        raise UserError("An infinite context needs a support: Wasserstein(radius, support=...).")

    def bounds(norms: HeadNorms, unit: float) -> AllBounds:
        return _context_bounds(
            layer, norms, batch, budget, lipschitz, context=context, every_bound=every_bound, unit=unit, known=known
        )

    norms = head_norms(layer, positions=batch.positions) if norms is None else norms
    found, exact = bounds(norms, UNIT), None
    if doubtful(layer, norms, batch):
        exact = bounds(head_norms(layer, positions=batch.positions, unit=0.0), 0.0)
    in_range = within_range(layer, batch, budget.radius, torch.where(supports.isinf(), 0.0, supports))
    seed = None if lipschitz is None else lipschitz.seed
    lightest = torch.where(batch.present, least_masses(batch, context), torch.inf).amin(-1).tolist()
    return tuple(
        replace(each, seed=seed, covers=Covers.CONTEXT, context=context, lightest=least)
        for each, least in zip(certificates_of(found, exact, in_range), lightest, strict=True)
    )


def _context_bounds(
    layer: AttentionLayer,
    norms: HeadNorms,
    batch: TokenMeasure,
    budget: Wasserstein,
    lipschitz: LipschitzEstimate | None,
    *,
    context: float,
    every_bound: bool,
    unit: float,
    known: KnownRows | None,
) -> AllBounds:
    """Of every sample: those of whole tokens where none can be split, those of pieces, and those of any measure."""
    rows = None if known is None or unit != UNIT or bool((~batch.present).any()) else known.of(batch)
    whole, supports = ~can_split(batch, context), budget.support_radius(batch).tolist()
    of_tokens = None
    if bool(whole.any()):
        path = path_norms(layer, norms, batch, budget, unit=unit)
        of_tokens = all_bounds(layer, norms, batch, budget, lipschitz, path=path, unit=unit)
    joint = joint_norms(layer, unit=unit) if every_bound else None
    found = []
    for index, constant in enumerate(_constants(layer, norms, batch, lipschitz, unit=unit, known=known)):
        sample, support = splitting.without_padding(batch.sample(index)), supports[index]
        limits = {"context": context, "support": support}
        own = None if rows is None else [sample_block(block, index) for block in rows]
        bounds = context_bounds(layer, norms, sample, budget, constant, **limits, unit=unit, known=own)
        if of_tokens is not None and bool(whole[index]):
            bounds = (*of_tokens[index], *bounds)
        if joint is not None:
            pieces = Pieces.of(sample, budget.radius, **limits, sink=False)
            reached = min(support, float((sample.points.norm(dim=-1) + pieces.reach).max()))
            anything = splitting.splitting_bounds(layer, norms, sample, budget, support=reached, joint=joint, unit=unit)
            bounds = (*bounds, *anything)
        found.append(bounds)
    return tuple(found)


def _constants(
    layer: AttentionLayer,
    norms: HeadNorms,
    batch: TokenMeasure,
    lipschitz: LipschitzEstimate | None,
    *,
    unit: float,
    known: KnownRows | None,
) -> list[SplitConstant]:
    """The derivative's norm at every sample, by Lanczos and in closed form."""
    centre = centre_norms(layer, norms, batch, unit=unit, known=known)
    probability = 0.0 if lipschitz is None else lipschitz.failure_probability
    return [
        SplitConstant(constant_upper(lipschitz, index, unit), probability, closed_form)
        for index, closed_form in enumerate(centre.tolist())
    ]


def _any_measure(
    layer: AttentionLayer, batch: TokenMeasure, budget: Wasserstein, norms: HeadNorms | None
) -> tuple[Certificate, ...]:
    """Certificates of every sample against any measure in the support."""
    layer, batch = layer.to(torch.float64), batch.to(torch.float64)
    norms = head_norms(layer, positions=batch.positions) if norms is None else norms
    supports = budget.support_radius(batch)

    def bounds(norms: HeadNorms, unit: float) -> AllBounds:
        joint = joint_norms(layer, unit=unit)
        return tuple(
            splitting.splitting_bounds(
                layer, norms, batch.sample(index), budget, support=support, joint=joint, unit=unit
            )
            for index, support in enumerate(supports.tolist())
        )

    found, exact = bounds(norms, UNIT), None
    if doubtful(layer, norms, batch):
        exact = bounds(head_norms(layer, positions=batch.positions, unit=0.0), 0.0)
    known = within_range(layer, batch, budget.radius, supports)
    return tuple(replace(each, covers=Covers.MEASURES, lightest=0.0) for each in certificates_of(found, exact, known))
