import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.pipeline.constants import released_estimate
from robust_attn.spectral.lipschitz import local_lipschitz
from tests.cases import CASES, Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


def test_by_hand():
    """One token 3, V = 2: f = 6, D = 2, so sqrt(12), where |D| = 2."""
    layer, measure = scalar_layer(1.0, 2.0), one_sample(scalar_measure([3.0]))
    assert float(released_estimate(layer, measure)) == pytest.approx(12**0.5)
    assert float(local_lipschitz(layer, measure).lower) == pytest.approx(2.0)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_what_a_power_iteration_with_the_primal_converges_to(case):
    """The released loop, with torch.func: v <- vjp(jvp(...)[0]), sqrt of its norm; the same from its first step on."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1), samples=1)
    flat = measure.sample(0)

    def f(points):
        return layer(flat.with_points(points))

    v = torch.randn(flat.points.shape, generator=generator(2), dtype=torch.float64)
    _, pull = torch.func.vjp(f, flat.points)
    for _ in range(3):
        v = v / v.norm()
        v = pull(torch.func.jvp(f, (flat.points,), (v,))[0])[0]
        assert float(released_estimate(layer, measure)[0]) == pytest.approx(float(v.norm()) ** 0.5, rel=1e-10)


def test_a_constant_map_of_growing_length_shows_a_quarter():
    """A = 0, V = 1, all tokens at 1: |D| = 1 at every n, |D^T f| = sqrt(n), so n^(1/4)."""
    for n in (4, 64):
        layer, measure = scalar_layer(0.0), one_sample(scalar_measure([1.0] * n))
        assert float(local_lipschitz(layer, measure).lower) == pytest.approx(1.0)
        assert float(released_estimate(layer, measure)) == pytest.approx(n**0.25)


def test_values_scale_it_once_and_an_offset_changes_it():
    base = random_layer(Case(), generator(0))
    measure = random_measure(Case(), generator(1))
    from dataclasses import replace

    tripled = replace(base, output=3 * base.output, offset=3 * base.offset)
    assert torch.allclose(released_estimate(tripled, measure), 3 * released_estimate(base, measure))
    moved = replace(base, offset=base.offset + 10)
    assert not torch.allclose(released_estimate(moved, measure), released_estimate(base, measure), rtol=0.1)


def test_it_is_batched():
    layer = AttentionLayer.single_head(torch.eye(5).double(), torch.eye(5).double())
    measure = random_measure(Case(), generator(3), samples=3)
    one_by_one = [released_estimate(layer, one_sample(measure.sample(i)))[0] for i in range(3)]
    assert torch.allclose(released_estimate(layer, measure), torch.stack(one_by_one))
