import math
from decimal import Decimal

import numpy as np
import pytest
import torch

from robust_attn.spectral.lanczos import bidiagonalize, finite_svd, largest_singular_value, upper_factor
from robust_attn.spectral.run_upper import excluded, run_excludes, run_upper, smallest_start
from tests.cases import generator
from tests.selection import at_first
from tests.spectral.matrices import Matrix


def run_on(spectrum, start, steps):
    """Alphas, betas and the largest value of a run on a diagonal matrix."""
    pair = bidiagonalize(Matrix(torch.diag(torch.as_tensor(spectrum))), torch.as_tensor(start)[:, None], steps)
    return pair.alphas.tolist(), pair.betas.tolist(), float(finite_svd(pair.matrix())[1][0])


def spectrum_of(g, kind):
    if kind == "random":
        values = g.uniform(0, 1, 40) ** g.uniform(0.3, 4)
    else:  # below the largest at the extrema of a Chebyshev polynomial: the hardest for Lanczos
        values = np.sqrt(0.9 * (1 + np.cos(np.arange(40) * math.pi / 6)) / 2)
    values[0] = 1.0
    return values


def test_one_step_by_hand():
    """alpha = beta = 1: q_2 = s^2 - 1, excluded where 1 + q_2^2 > 100: s^2 > 1 + sqrt(99) = 10.9499, s > 3.30906."""
    assert not excluded([1.0], [1.0], Decimal("3.309"), 0.1)
    assert excluded([1.0], [1.0], Decimal("3.3092"), 0.1)
    assert run_upper([1.0], [1.0], 1.0, 0.1) == pytest.approx(3.30906, abs=1e-5)
    assert run_excludes([1.0], [1.0], 1.0, 3.31, 0.1)
    assert not run_excludes([1.0], [1.0], 1.0, 3.30, 0.1)


def test_the_smallest_start_by_hand():
    """sqrt(2 N / pi) delta = p: N = 200, p = 0.1 gives delta = 0.1 sqrt(pi / 400) = 0.0088623."""
    assert smallest_start(200, 0.1) == pytest.approx(0.0088623, abs=1e-7)


def test_a_start_that_rounding_may_have_made_shows_nothing():
    assert smallest_start(20_000, 1e-9) == pytest.approx(1e-9 * math.sqrt(math.pi / 40_000) - 1e-13, rel=1e-12)
    assert smallest_start(20_000, 1e-12) == 0
    assert run_upper([1.0], [1.0], 1.0, 0.0) == math.inf
    assert not run_excludes([1.0], [1.0], 1.0, 1e9, 0.0)


@pytest.mark.parametrize("kind", ["random", "chebyshev"])
@pytest.mark.parametrize("seed", at_first(range(12), 4))
def test_the_largest_value_is_never_excluded_by_a_start_with_its_component(kind, seed):
    """At every number of steps, also where the component is tiny: the lemma, with the component as it is."""
    g = np.random.default_rng(seed)
    values, start = spectrum_of(g, kind), g.standard_normal(40)
    start[0] *= 10 ** g.uniform(-6, 0)
    component = abs(start[0]) / np.linalg.norm(start)
    for steps in (2, 4, 6, 8, 12):
        alphas, betas, lower = run_on(values, start, steps)
        upper = run_upper(alphas, betas, lower, component)
        assert upper >= 1.0 - 1e-10
        assert not run_excludes(alphas, betas, lower, 1.0 - 1e-9, component)


@pytest.mark.parametrize("kind", ["random", "chebyshev"])
@pytest.mark.parametrize("steps", [6, 12, 24])
def test_what_the_run_has_seen_is_never_above_what_its_steps_promise(kind, steps):
    g = np.random.default_rng(steps)
    alphas, betas, lower = run_on(spectrum_of(g, kind)[:34], g.standard_normal(34), steps)
    for stated in (0.5, 1e-3, 1e-9):
        if min(*alphas, *betas) > 1e-9:  # else the space is exhausted and the run shows nothing
            assert run_upper(alphas, betas, lower, smallest_start(34, stated)) <= lower * upper_factor(
                34, steps, stated
            )


def test_excluded_values_stay_excluded_above():
    alphas, betas, lower = run_on(spectrum_of(np.random.default_rng(0), "random"), np.ones(40), 10)
    at = [excluded(alphas, betas, Decimal(lower * (1 + 0.01 * step)), 1e-6) for step in range(1, 200)]
    assert any(at)
    assert not all(at)
    assert at == sorted(at)


def test_failures_are_as_rare_as_stated_and_not_far_rarer():
    """1000 starts on the hardest kind of spectrum, stated 0.2: the event that is charged for is nearly all of it."""
    below = 0.7 * (1 + torch.cos(torch.arange(59).double() * math.pi / 5)) / 2
    matrices = torch.diag(torch.cat([torch.ones(1).double(), below]).sqrt()).expand(1000, 60, 60)
    found = largest_singular_value(Matrix(matrices), generator=generator(0), steps=5, failure_probability=0.2 * 1000)
    rate = float((found.upper < 1 - 1e-12).double().mean())
    assert rate <= 0.2 + 5 * math.sqrt(0.2 / 1000)


@pytest.mark.parametrize(
    ("alphas", "betas", "lower"),
    [
        ([0.0, 1.0], [1.0, 1.0], 1.0),
        ([1.0, 1.0], [1e-14, 1.0], 1.0),
        ([1.0, math.nan], [1.0, 1.0], 1.0),
        ([1.0, 1.0], [1.0, 1.0], math.nan),
        ([1.0, 1.0], [1.0, 1.0], 0.0),
    ],
)
def test_where_the_space_is_exhausted_or_numbers_are_none_nothing_is_promised(alphas, betas, lower):
    assert run_upper(alphas, betas, lower, 1e-6) == math.inf
    assert not run_excludes(alphas, betas, lower, 10.0, 1e-6)
