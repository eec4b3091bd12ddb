from __future__ import annotations

import pytest
import torch

from robust_attn.data.synthetic import gaussian, sphere


def _generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_gaussian_points_have_the_scale_and_no_mean():
    points = gaussian(50, 40, 30, _generator(), torch.float64, scale=2.5)
    assert points.shape == (50, 40, 30)
    assert float(points.std()) == pytest.approx(2.5, rel=0.02)
    assert abs(float(points.mean())) < 0.05


def test_sphere_points_lie_on_the_sphere_and_cancel_out():
    points = sphere(50, 40, 30, _generator(), torch.float64, radius=7.0)
    torch.testing.assert_close(points.norm(dim=-1), torch.full((50, 40), 7.0, dtype=torch.float64))
    assert float(points.mean((0, 1)).norm()) < 0.5


@pytest.mark.parametrize("draw", [gaussian, lambda *args: sphere(*args, radius=3.0)])
def test_the_generator_alone_decides_and_every_precision_sees_the_same(draw):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    exact = draw(2, 3, 4, _generator(1), torch.float64)
    coarse = draw(2, 3, 4, _generator(1), torch.float32)
    assert torch.equal(exact.float(), coarse)
    assert not torch.equal(exact, draw(2, 3, 4, _generator(2), torch.float64))
    assert torch.equal(torch.get_rng_state(), before)
