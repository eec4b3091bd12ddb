"""Inputs that beat a certificate, in exact arithmetic, until shifts of logits were no longer added to log P as floats.

Found by writing docs/proofs/local.md#interval-softmax and docs/proofs/splitting.md#what-a-point-can-draw.
"""

import math

import pytest
import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.certificates.measures import certify_measures
from robust_attn.soundness.exact import Judge, Sliver


def test_a_light_token_that_may_go_far():
    """All logits are 1e9 x. The token of mass 1e-20 may go to 1e10, and all attention follows: a change of 1e10.

    log P was absorbed by shifts beyond 1e16, and the certificate was 6.25e8.
    """
    layer = AttentionLayer.single_head(*torch.tensor([[[0.0]], [[1.0]]]).double(), torch.tensor([1e9]).double())
    measure = TokenMeasure.weighted(torch.ones(2, 1).double(), torch.tensor([1.0, 1e-20]).double())
    budget = Wasserstein(1.0)
    change = Judge.of(layer, measure, budget).by(torch.tensor([[0.0], [1e10]]).double())
    assert change.inside
    assert change.output_lower == pytest.approx(1e10)
    assert not change.violates(certify(layer, measure, budget, deterministic=True).output_change)


def test_a_sliver_of_a_token_that_nobody_attends_to():
    """All logits are g x_1, g = 1e9, support 1: token 2 is 746 below token 1, which is 300 below the edge.

    Its weight underflows; its depth was then taken for 1e6 instead of 1046, and the certificate was 1.4e-9 for 6.9e-9.
    """
    g = 1e9
    aside = math.sqrt(1 / g)
    layer = AttentionLayer.single_head(
        torch.zeros(2, 2).double(), torch.eye(2).double(), torch.tensor([g, 0.0]).double()
    )
    points = torch.tensor([[1 - 300 / g, 0.0], [1 - 1046 / g, aside]]).double()
    measure = TokenMeasure.uniform(points)
    budget = Wasserstein(2.7789027211506e-73, support=1.0)
    way = math.sqrt(1 - aside**2) - 2.3e-16 - float(points[1, 0])
    sliver = Sliver(1, 2 * (budget.radius / way) ** 2 * (1 - 1e-9), (way, 0.0))
    change = Judge.of(layer, measure, budget).slivers([sliver])
    assert change.inside
    assert change.output_lower > 6e-9
    assert not change.violates(certify_measures(layer, measure, budget).output_change)
