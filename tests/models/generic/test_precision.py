from __future__ import annotations

import pytest
import torch

from robust_attn.models.generic.precision import KeepFloat64

X = torch.full((3,), 1 / 3, dtype=torch.float64)


@pytest.mark.parametrize(
    "coarse",
    [
        lambda x: x.float(),
        lambda x: x.to(torch.float32),
        lambda x: x.to(dtype=torch.bfloat16),
        lambda x: x.to(torch.ones(1)),
        lambda x: x.type_as(torch.ones(1)),
        lambda x: x.half(),
        lambda x: x.softmax(-1, dtype=torch.float32),
        lambda x: torch.nn.functional.softmax(x, dim=-1, dtype=torch.float32),
    ],
)
def test_float64_stays(coarse):
    assert coarse(X).dtype != torch.float64
    with KeepFloat64():
        assert coarse(X).dtype == torch.float64
    assert coarse(X).dtype != torch.float64


def test_what_is_coarse_from_the_start_is_left():
    with KeepFloat64():
        assert torch.arange(3).float().dtype == torch.float32
        assert torch.ones(3).to(torch.bfloat16).dtype == torch.bfloat16
        assert X.to(torch.int64).dtype == torch.int64
