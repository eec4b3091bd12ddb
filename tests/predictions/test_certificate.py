"""Certified radii are never reached by attacks, on random small models of every kind."""

import dataclasses
import math

import pytest
import torch

from robust_attn.predictions.certificate import Effort, certified_prediction
from tests.predictions.cases import random_network, smallest_margin

QUICK = Effort(samples=64, planning=64, accuracy=0.5, start=1e-2)


def attacked(seed: int, **options) -> tuple[float, float]:
    """The certified radius, and the smallest margin that an attack finds within it."""
    network, points = random_network(seed)
    row = options.get("perturb", "all")
    free = torch.zeros_like(points)
    free[slice(None) if row == "all" else row] = 1
    certificate = certified_prediction(network, points, effort=QUICK, seed=seed, **options)
    if certificate.radius == 0:
        assert certificate.verdict == "UNKNOWN"
        return 0.0, math.inf
    return certificate.radius, smallest_margin(network, points, certificate.radius, free=free, seed=seed)


@pytest.mark.parametrize("seed", range(6))
def test_no_attack_flips_within_the_certified_radius(seed):
    radius, least = attacked(seed)
    assert radius >= 0
    assert least > 0


@pytest.mark.parametrize("seed", range(3))
def test_nor_where_one_row_moves(seed):
    radius, least = attacked(seed, perturb=0)
    assert radius > 0
    assert least > 0


@pytest.mark.parametrize("seed", range(1000, 1008))
def test_nor_where_nothing_is_drawn(seed):
    radius, least = attacked(seed, deterministic=True)
    assert radius > 0
    assert least > 0


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(5))
def test_two_hundred_and_fifty_models(batch):
    certified = 0
    for seed in range(1000 + 50 * batch, 1050 + 50 * batch):
        radius, least = attacked(seed, **({"perturb": 0} if seed % 5 == 0 else {}))
        assert least > 0, seed
        certified += radius > 0
    assert certified >= 40


@pytest.mark.slow
def test_the_same_seed_repeats_and_fresh_entropy_is_told():
    network, points = random_network(1)
    first, second = (certified_prediction(network, points, effort=QUICK, seed=5) for _ in range(2))
    assert first.radius == second.radius > 0
    assert (
        certified_prediction(network, points, effort=QUICK).seed
        != certified_prediction(network, points, effort=QUICK).seed
    )


def test_what_is_not_finite_is_unknown():
    network, points = random_network(1)
    broken = dataclasses.replace(network, offset=torch.full_like(points, torch.nan))
    certificate = certified_prediction(broken, points, effort=QUICK, seed=0)
    assert (certificate.radius, certificate.verdict) == (0.0, "UNKNOWN")


def test_shares_name_the_steps_and_stay_below_the_margin():
    network, points = random_network(1)
    certificate = certified_prediction(network, points, effort=QUICK, seed=5)
    assert certificate.verdict == "HOLDS"
    assert {"first", "second", "layer0.attention", "layer0.mlp"} <= set(certificate.shares)
    assert certificate.shares["first"] + certificate.shares["second"] < certificate.margin
