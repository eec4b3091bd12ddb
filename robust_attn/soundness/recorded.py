"""Certificates as a run makes them: what it records of a layer, or of every layer of a whole classifier."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import nn

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.discrete import RepeatTokens
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import BUDGETS, Budget, TokenRadius, Wasserstein
from robust_attn.certificates.measures import certify_measures
from robust_attn.pipeline.checks import attack_records
from robust_attn.pipeline.jobs import LayerJob, Subject, generator_for
from robust_attn.pipeline.parts import bound_parts
from robust_attn.pipeline.predictions import ThroughModel
from robust_attn.pipeline.repeats import RepeatedTokens
from robust_attn.records.kinds import Check, LayerRecord, RepeatLayerRecord
from robust_attn.records.parts import BoundPart, Observed
from robust_attn.soundness.case import FLOATS, Case
from robust_attn.soundness.comparison import (
    CERTIFICATE,
    CONSTANT_ROUNDING,
    NOT_CERTIFIED,
    NOT_JUDGED,
    NOT_OBSERVED,
    Checked,
    Comparison,
    together,
)
from robust_attn.soundness.numbers import attack_of, budget_of, layer_of, measures_of, options_of
from robust_attn.soundness.strike import strike
from robust_attn.through.classifier import MeanClassifier, TextClassifier
from robust_attn.through.victim import Victim
from robust_attn.types import Scope, Side, Verdict

SIZES = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16, "vocab_size": 30}
CLASSES, STEPS, REPEATS = 3, 3, 2
COARSE = 4.0
"""Relative accuracy of radii that flip a prediction, of which nothing is asked here."""
W2_ROUNDING = 1e-9
"""Relative error of a W2 distance between outputs."""


def records_checked(case: Case) -> Checked:
    """Attack as a run does, and compare what it records with every bound by itself."""
    layer = layer_of(case)
    inputs = measures_of(case, layer)
    budget = budget_of(case, inputs)
    job = LayerJob(Subject("random", "drawn", 0), layer, inputs)
    near = _bounds_of_measures(case, layer, inputs, budget)
    parts = []
    for entry in attack_records(job, attack_of(case), budget, options_of(case), seed=case.seed):
        number, reason = case.samples[entry.sample], reason_of(entry)
        found = tuple(compared(entry, [*entry.bounds, *near[entry.sample]], number))
        parts.append(Checked(found, () if reason is None else (reason,)))
    return together(parts)


def _bounds_of_measures(
    case: Case, layer: AttentionLayer, inputs: TokenMeasure, budget: Budget
) -> Sequence[Sequence[BoundPart]]:
    """Bounds for every measure near, where the attack does not bring them itself, on a support that it cannot leave."""
    attack = attack_of(case)
    if not isinstance(budget, Wasserstein) or attack.any_masses or (attack.copies > 1 and budget.support is None):
        return [[] for _ in case.samples]
    found = certify_measures(layer, inputs, _supported(budget, inputs.to(torch.float64))).samples
    return [bound_parts(certificate.bounds) for certificate in found]


def _supported(budget: Wasserstein, inputs: TokenMeasure) -> Wasserstein:
    """The budget with the ball that holds its tokens wherever they may go whole, if it has no support."""
    if budget.support is not None:
        return budget
    reach = inputs.points.norm(dim=-1) + budget.reach(inputs)
    farthest = float(reach[inputs.present].max())
    return replace(budget, support=farthest if 0 < farthest < math.inf else TokenRadius())


def reason_of(entry: Check) -> str | None:
    """Why a record says nothing, None if it does."""
    if entry.observed.output_change is None or entry.observed.rounding is None:
        return NOT_OBSERVED
    if entry.certified.output_change is None:
        return NOT_CERTIFIED
    return NOT_JUDGED if entry.verdict == Verdict.UNKNOWN else None


def compared(entry: Check, bounds: Sequence[BoundPart], number: int) -> Iterator[Comparison]:
    """A bound on a set of perturbations with the output change, a constant at the tokens with the one attained."""
    observed, rounding = entry.observed.output_change, entry.observed.rounding
    if observed is None or rounding is None:
        return
    certified = entry.certified.output_change
    if certified is not None:
        yield Comparison(CERTIFICATE, number, observed, rounding, certified)
    for bound in bounds:
        allowed = bound.output_change
        if bound.side is not Side.UPPER or bound.comparator or allowed is None:
            continue
        if bound.certifies:
            yield Comparison(bound.name, number, observed, rounding, allowed)
        elif bound.scope is Scope.LOCAL and entry.lipschitz.lower is not None:
            attained = entry.lipschitz.lower * (entry.budget.radius or 0.0)
            yield Comparison(bound.name, number, attained, CONSTANT_ROUNDING * attained + rounding, allowed)


def through_checked(case: Case) -> Checked:
    """`ThroughModel`: at every layer what the attack on the input did there, and an attack on its certificate."""
    reader, ids = _classifier(case), _ids(case)
    victim = Victim.of(reader, reader.measure(ids))
    task = ThroughModel(_attack(case), budget_of(case, victim.base), accuracy=COARSE)
    records = list(task.records(reader, ids, range(len(reader.model.attached)), options_of(case), seed=case.seed))
    found = victim.strongest(task.attack, task.budget, generator_for(case.seed, "through", 0))
    arriving = reader.trace(found.base).inputs
    return together(
        _layer_checked(case, reader, entry, arriving[entry.layer or 0])
        for entry in records
        if isinstance(entry, LayerRecord)
    )


def _layer_checked(case: Case, reader: TextClassifier, entry: LayerRecord, before: TokenMeasure) -> Checked:
    layer = reader.model.layer(entry.layer or 0)
    budget = BUDGETS[entry.budget.kind](entry.budget.radius or 0.0, layer.input_radius)
    hit = strike(replace(case, attack="move", judged=FLOATS), layer, before.sample(0), budget, 0)
    own = replace(entry, observed=Observed(output_change=hit.change, rounding=hit.rounding))
    entries = [entry, own] if hit.usable else [entry]
    reason = reason_of(entry)
    comparisons = tuple(found for each in entries for found in compared(each, each.bounds, 0))
    return Checked(_renamed(case, comparisons), () if reason is None else (reason,))


def repeat_checked(case: Case) -> Checked:
    """`RepeatedTokens`: at every layer the text with repetitions, and slivers within the W2 distance of it."""
    reader, ids = _classifier(case), _ids(case)
    task = RepeatedTokens(RepeatTokens(REPEATS, REPEATS), Move(1, 0))
    clean = reader.trace(reader.measure(ids))
    layers = range(len(reader.model.attached))
    return together(
        Checked(_renamed(case, tuple(_repeated(case, reader, entry, clean.inputs[entry.layer or 0]))))
        for entry in task.records(reader, ids, layers, seed=case.seed)
        if isinstance(entry, RepeatLayerRecord)
    )


def _repeated(
    case: Case, reader: TextClassifier, entry: RepeatLayerRecord, before: TokenMeasure
) -> Iterator[Comparison]:
    layer, typed = reader.model.layer(entry.layer or 0), entry.typed
    allowed = {
        bound.name: bound.output_change
        for bound in [*entry.bounds, BoundPart(name=CERTIFICATE, output_change=entry.certified.output_change)]
        if bound.applies and bound.output_change is not None
    }
    hit = strike(
        replace(case, attack="sliver", judged=FLOATS),
        layer,
        before.sample(0),
        Wasserstein(typed.w2_input or 0.0, layer.input_radius),
        0,
    )
    moved = math.nan if typed.w2_output is None else typed.w2_output
    for name, change in allowed.items():
        yield Comparison(name, 0, moved, W2_ROUNDING * moved, change)
        if hit.usable:
            yield hit.beside(name, 0, change)


def _renamed(case: Case, comparisons: tuple[Comparison, ...]) -> tuple[Comparison, ...]:
    """Bounds at layers of a model are called by the function as well."""
    return tuple(replace(each, bound=f"{case.called}.{each.bound}") for each in comparisons)


def _classifier(case: Case) -> TextClassifier:
    """A random BERT of the case's seed; sizes multiply its embeddings, queries, keys and values."""
    from robust_attn.models import load_model
    from robust_attn.models.load import checked_model

    model = load_model("bert", "random", sizes=SIZES, seed=case.seed % 2**32)
    factors = {"query": case.logit_size, "key": case.logit_size, "value": case.value_size}
    with torch.no_grad():
        for name, parameter in model.module.named_parameters():
            parameter.mul_(factors.get(name.split(".")[-2], 1.0) if name.endswith("weight") else 1.0)
            if name.endswith("word_embeddings.weight"):
                parameter.mul_(case.token_size)
    width = SIZES["hidden_size"]
    head = nn.Linear(width, CLASSES, dtype=torch.float64).requires_grad_(False)
    numbers = torch.randn(CLASSES, width, generator=generator_for(case.seed, "head"), dtype=torch.float64)
    head.load_state_dict({"weight": numbers, "bias": torch.zeros(CLASSES, dtype=torch.float64)})
    return MeanClassifier(checked_model(model.name, model.origin, model.module, tokenizer=None), head)


def _ids(case: Case) -> torch.Tensor:
    return torch.randint(0, SIZES["vocab_size"], (1, case.tokens), generator=generator_for(case.seed, "ids"))


def _attack(case: Case) -> Attack:
    match case.attack:
        case "mass_split":
            return MassSplit(2, STEPS, 0, masses=Masses.EQUAL)
        case "sliver":
            return MassSplit(2, STEPS, 0, masses=Masses.SLIVER, context=1e10)
        case _:
            return Move(STEPS, 0)
