import pytest
import torch

from robust_attn.spectral.lipschitz import QueryPart, local_lipschitz, split_lipschitz
from tests.attention.laws import JacobianLaws
from tests.cases import CASES, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


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
            return merge_heads(layer, logits.softmax(-1) @ fixed.v)

        return QueryPart(operator), function, measure.points


def _log_weights(layer, measure):
    from robust_attn.attention.mask import log_weight

    return log_weight(layer.mask, measure.positions, measure.masses).unsqueeze(-3)


def test_hand_computed_constants():
    """x = (0, 1), A = -8, V = 1 (theory sheet, 4.2): moving 1.853, splitting 2 = |C_0 A| = 8/4."""
    layer, measure = scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(1.85304, abs=1e-5)
    assert float(split_lipschitz(layer, measure, generator=generator(0)).lower) == pytest.approx(2.0, rel=1e-12)


def test_unbalanced_masses_by_hand():
    """Mass .01 at -1, .99 at 0, A = -100 (sheet, 4.2): moving .1005, splitting .9900."""
    layer, measure = scalar_layer(-100.0), one_sample(scalar_measure([-1.0, 0.0], [0.01, 0.99]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(0.1005, abs=1e-4)
    assert float(split_lipschitz(layer, measure, generator=generator(0)).lower) == pytest.approx(0.99, abs=1e-4)


def test_no_interaction_gives_the_column_sums():
    """A = 0: every output is V times the mean, so the constant is |V| whatever the masses."""
    layer, measure = scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.3, -2.0, 5.0], [0.2, 0.3, 0.5]))
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(3.0, rel=1e-12)


@pytest.mark.parametrize("case", [case for case in CASES if case.masses != "copies"][::2], ids=str)
@pytest.mark.parametrize("copies", [2, 3])
def test_split_constant_is_that_of_the_split_measure(case, copies):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    claimed = split_lipschitz(layer, measure, generator=generator(2), steps=200)
    split = local_lipschitz(layer, measure.split(copies), generator=generator(3), steps=400)
    assert torch.allclose(claimed.lower, split.lower, rtol=1e-9)
