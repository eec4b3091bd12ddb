import math

import pytest
import torch

from robust_attn.spectral.norms import head_norms
from tests.cases import CASES, generator, random_layer, random_measure


@pytest.mark.parametrize("case", CASES, ids=str)
def test_slopes_and_logits_are_bounded_on_the_ball(case):
    """The derivatives of the logits, by autograd, at tokens of norm at most R."""
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    radius = float(measure.radius.max())
    norms = head_norms(layer)
    from robust_attn.attention.jacobian import project

    def logits(points):
        parts = project(layer, measure.with_points(points))
        return layer.scale * parts.q @ parts.k.transpose(-1, -2)

    s = logits(measure.points)[0]
    slope = torch.func.jacrev(lambda p: logits(torch.cat([p[None], measure.points[1:]]))[0])(measure.points[0])
    for i in range(measure.length):
        for j in range(measure.length):
            if i == j or not (measure.present[0, i] and measure.present[0, j]):
                continue
            assert (slope[:, i, j, j].norm(dim=-1) <= norms.key_slope(radius) * (1 + 1e-9)).all()
            relative = slope[:, i, j, i] if layer.rotary is not None else slope[:, i, j, i] - _shared(layer, i)
            assert (relative.norm(dim=-1) <= norms.query_slope(radius) * (1 + 1e-9)).all()
    if layer.rotary is not None:
        present = measure.present[0]
        assert (s[:, present][:, :, present].abs().amax((-1, -2)) <= norms.largest_logit(radius) * (1 + 1e-9)).all()


def _shared(layer, _row):
    """The part of ds_ij/dx_i that is the same for all j: W_Q^T b_K."""
    groups = [layer.group_of(h) for h in range(layer.heads)]
    return layer.scale * (layer.query.transpose(-1, -2) @ layer.key_bias[groups][..., None])[..., 0]


def test_hand_computed_head_norms():
    """A = diag(2, 1), V = diag(3, 1), bias (0, 5): |A| = 2, |V| = 3, |a| = 5; at R = 2 kappa = (4 + 5) 2 = 18."""
    from robust_attn.attention.layer import AttentionLayer

    layer = AttentionLayer.single_head(
        torch.diag(torch.tensor([2.0, 1.0])).double(),
        torch.diag(torch.tensor([3.0, 1.0])).double(),
        torch.tensor([0.0, 5.0]).double(),
    )
    norms = head_norms(layer)
    assert float(norms.interaction) == pytest.approx(2.0)
    assert float(norms.value) == pytest.approx(3.0)
    assert float(norms.largest_logit(2.0)) == pytest.approx(18.0)
    assert norms.has_bias
    assert math.isclose(norms.output, 3.0, rel_tol=1e-9)
