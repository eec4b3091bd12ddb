from __future__ import annotations

import pytest
import torch
from torch import nn

import robust_attn as ra
from robust_attn.models.multihead import expect_multihead


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("batch_first", [True, False])
def test_the_layer_is_the_module(bias, batch_first):
    torch.manual_seed(0)
    module = nn.MultiheadAttention(12, 3, bias=bias, batch_first=batch_first, dropout=0.5).double().eval()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    points = torch.randn(2, 5, 12, dtype=torch.float64)
    given = points if batch_first else points.transpose(0, 1)
    theirs = module(given, given, given)[0]
    theirs = theirs if batch_first else theirs.transpose(0, 1)
    layer = ra.from_multihead_attention(module, input_radius=4.0)
    assert float((layer(ra.TokenMeasure.uniform(points)) - theirs.detach()).abs().max()) <= 1e-13
    assert layer.input_radius == 4.0
    assert not layer.query.requires_grad


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kdim": 3}, "cross attention"),
        ({"vdim": 3}, "cross attention"),
        ({"add_bias_kv": True}, "one more key"),
        ({"add_zero_attn": True}, "one more key"),
    ],
)
def test_what_is_no_such_layer_is_refused(options, message):
    with pytest.raises(ra.UserError, match=message):
        ra.from_multihead_attention(nn.MultiheadAttention(4, 2, **options))


def test_another_module_is_refused():
    with pytest.raises(ra.UserError, match="got Linear"):
        expect_multihead(nn.Linear(2, 2))
