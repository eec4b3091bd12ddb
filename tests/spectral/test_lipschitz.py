import pytest
import torch

from robust_attn.attention.operator import ScaledJacobian
from robust_attn.spectral.lipschitz import QueryPart, head_lipschitz, local_lipschitz, split_lipschitz
from tests.attention.laws import JacobianLaws
from tests.cases import (
    CASES,
    MORE_CASES,
    generator,
    one_sample,
    random_layer,
    random_measure,
    scalar_layer,
    scalar_measure,
)


class TestQueryPart(JacobianLaws):
    """The derivative when keys and values are held at the point: queries read other points than keys and values."""

    def make(self, case, g):
        from robust_attn.attention.jacobian import merge_heads, project

        layer, measure = random_layer(case, g), random_measure(case, g)
        operator = layer.linearize(measure)
        fixed = operator.projections

        def function(points):
            q = project(layer, measure.with_points(points)).q
            logits = layer.scale * q @ fixed.k.transpose(-1, -2) + _log_weights(layer, measure)
            values = fixed.v
            if layer.position_bias is not None:
                logits = logits + layer.position_bias.between(measure.positions)
            if layer.sinks is not None:
                sink = layer.sinks.log_weight(measure)[..., None, None].expand(*logits.shape[:-1], 1)
                logits = torch.cat((logits, sink), dim=-1)
                constant = layer.sinks.value[:, None].expand(*values.shape[:-2], 1, values.shape[-1])
                values = torch.cat((values, constant), dim=-2)
            return merge_heads(layer, logits.softmax(-1) @ values)

        return QueryPart(operator), function, measure.points


def _log_weights(layer, measure):
    from robust_attn.attention.mask import log_weight

    return log_weight(layer.mask, measure.positions, measure.masses).unsqueeze(-3)


def test_hand_computed_constants():
    """x = (0, 1), A = -8, V = 1 (docs/proofs/splitting.md#examples): moving 1.853, splitting 2 = |C_0 A| = 8/4."""
    layer, measure = scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(1.85304, abs=1e-5)
    assert float(split_lipschitz(layer, measure, seed=0).lower) == pytest.approx(2.0, rel=1e-11)


def test_unbalanced_masses_by_hand():
    """Mass .01 at -1, .99 at 0, A = -100: moving .1005, splitting .9900."""
    layer, measure = scalar_layer(-100.0), one_sample(scalar_measure([-1.0, 0.0], [0.01, 0.99]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(0.1005, abs=1e-4)
    assert float(split_lipschitz(layer, measure, seed=0).lower) == pytest.approx(0.99, abs=1e-4)


def test_no_interaction_gives_the_column_sums():
    """A = 0: every output is V times the mean, so the constant is |V| whatever the masses."""
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.3, -2.0, 5.0], [0.2, 0.3, 0.5]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(3.0, rel=1e-11)


@pytest.mark.parametrize("case", [case for case in MORE_CASES if case.masses != "copies"], ids=str)
@pytest.mark.parametrize("copies", [2, 3])
def test_split_constant_is_that_of_the_split_measure(case, copies):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    claimed = split_lipschitz(layer, measure, seed=2, steps=200)
    split = local_lipschitz(layer, measure.split(copies), seed=3, steps=400)
    assert torch.allclose(claimed.lower, split.lower, rtol=1e-9)


def test_heads_alone_agree_with_the_dense_matrices_and_share_the_probability():
    case = CASES[5]
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), length=16)
    found = head_lipschitz(layer, measure, steps=40, seed=2)
    for head in range(layer.heads):
        operator = ScaledJacobian(layer.head(head).linearize(measure), measure.masses)
        exact = torch.linalg.svdvals(operator.dense())[..., 0]
        assert torch.allclose(found.lower[head], exact, rtol=1e-9)
        assert (exact <= found.upper[head]).all()
    assert found.lower.shape == (2, 2)
    assert found.direction.shape == (2, *measure.points.shape)
    assert found.failure_probability == pytest.approx(1e-9)
    alone = local_lipschitz(layer.head(0), measure, steps=40, failure_probability=0.5e-9, seed=2)
    assert torch.allclose(found.upper[0] / found.lower[0], alone.upper / alone.lower, rtol=1e-12)


def test_heads_add_up_to_at_least_the_layer():
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    assert (local_lipschitz(layer, measure).lower <= head_lipschitz(layer, measure).lower.sum(0) * (1 + 1e-12)).all()


def test_a_query_part_that_is_smaller_is_only_known_to_be_so():
    """The constant is that of moving; the run on the query part ends long before it would have converged."""
    layer, measure = random_layer(CASES[0], generator(0)), random_measure(CASES[0], generator(1), length=40)
    moved = local_lipschitz(layer, measure, seed=2, failure_probability=0.5e-9)
    split = split_lipschitz(layer, measure, seed=2)
    assert torch.allclose(split.upper, moved.upper, rtol=1e-12)
    assert torch.allclose(split.lower, moved.lower, rtol=1e-12)
    assert split.steps == moved.steps
    assert split.converged
    assert split.failure_probability == pytest.approx(1e-9)


def test_a_query_part_that_is_known_to_be_smaller_is_not_looked_at(monkeypatch):
    """Upper values of all samples below that of moving end it there; one that is not has all of them looked at."""
    layer, measure = random_layer(CASES[0], generator(0)), random_measure(CASES[0], generator(1), length=40)
    moved = local_lipschitz(layer, measure, seed=2, failure_probability=0.5e-9)
    asked = split_lipschitz(layer, measure, seed=2)
    runs = []
    monkeypatch.setattr(QueryPart, "jvp", lambda *_: runs.append(1) or torch.zeros(2, 40, 6).double())
    known = split_lipschitz(layer, measure, seed=2, queries=moved.lower)
    assert not runs
    assert torch.equal(known.upper, moved.upper)
    assert torch.equal(known.lower, moved.lower)
    assert (known.failure_probability, asked.failure_probability) == pytest.approx((0.5e-9, 1e-9))
    for unknown in (torch.stack((moved.lower[0], 2 * moved.upper[1])), torch.full((2,), torch.nan).double()):
        runs.clear()
        split_lipschitz(layer, measure, seed=2, queries=unknown)
        assert runs


@pytest.mark.parametrize("estimate", [local_lipschitz, split_lipschitz, head_lipschitz])
def test_early_stopping_keeps_the_value_and_pays_in_the_upper_one(estimate):
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), length=40)
    full = estimate(layer, measure, seed=2, steps=100)
    early = estimate(layer, measure, seed=2, steps=100, tolerance=1e-6)
    assert early.steps < full.steps
    assert early.converged
    assert torch.allclose(early.lower, full.lower, rtol=1e-6)
    assert (full.lower <= early.upper).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_of_any_precision_are_taken_as_they_are_and_computed_with_in_float64(dtype):
    case = CASES[0]
    layer, measure = random_layer(case, generator(0)).to(dtype), random_measure(case, generator(1), length=40)
    measure = measure.to(torch.float32)
    exact = local_lipschitz(layer.to(torch.float64), measure.to(torch.float64), seed=3)
    found = local_lipschitz(layer, measure, seed=3)
    assert found.upper.dtype == torch.float64
    assert torch.equal(found.upper, exact.upper)
    assert torch.equal(found.lower, exact.lower)


def test_a_start_is_drawn_anew_and_can_be_repeated():
    layer, measure = random_layer(CASES[0], generator(0)), random_measure(CASES[0], generator(1), length=40)
    first, second = (local_lipschitz(layer, measure, steps=12) for _ in range(2))
    assert first.seed != second.seed
    assert not torch.equal(first.lower, second.lower)
    again = local_lipschitz(layer, measure, steps=12, seed=first.seed)
    assert torch.equal(again.upper, first.upper)
    assert again.seed == first.seed


def test_every_bit_of_a_seed_counts():
    """Of 2^32 starts somebody could avoid enough to fail more often than stated."""
    layer, measure = random_layer(CASES[0], generator(0)), random_measure(CASES[0], generator(1), length=40)
    low, high = (local_lipschitz(layer, measure, steps=12, seed=seed) for seed in (5, 5 + 2**40))
    assert not torch.equal(low.lower, high.lower)


def test_one_token_is_the_value_map():
    """n = 1, d = 1: f(x) = v x."""
    assert float(local_lipschitz(scalar_layer(4.0, -2.5), one_sample(scalar_measure([3.0]))).lower) == pytest.approx(
        2.5, rel=1e-10
    )
