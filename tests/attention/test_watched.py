"""A watched layer is the layer, and tells of every derivative."""

import torch

from robust_attn.attacks.move import Move
from robust_attn.attention.watched import watched
from robust_attn.budget import Wasserstein
from tests.cases import Case, generator, random_layer, random_measure


def test_an_attack_on_a_watched_layer_is_the_same_attack_step_by_step():
    layer, tokens = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    calls = []
    alone = Move(steps=7)(layer, tokens, Wasserstein(0.01))
    seen = Move(steps=7)(watched(layer, lambda: calls.append(1)), tokens, Wasserstein(0.01))
    assert torch.equal(seen.measure.points, alone.measure.points)
    assert len(calls) >= len(alone.history)


def test_heads_and_other_precisions_are_watched_and_nothing_is_copied():
    layer, tokens = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    calls = []
    twin = watched(layer, lambda: calls.append(1))
    assert twin.stacked_projections is layer.stacked_projections
    twin.head(0).linearize(tokens)
    twin.to(torch.float32).linearize(tokens.to(torch.float32))
    assert len(calls) == 2
    assert torch.equal(twin(tokens), layer(tokens))
