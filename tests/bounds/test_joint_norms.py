import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.bounds.joint_norms import joint_norms, joint_reach
from robust_attn.spectral.matrix_norms import norm_upper
from tests.cases import MORE_CASES, generator, random_layer


def test_reach_by_hand():
    """V_1 = (3, 0)^T, V_2 = (0, 4)^T on numbers: |3 z_1 e_1 + 4 z_2 e_2| <= 5. V_1 = V_2 = 1: 2. V_2 = 0: 1."""
    one = torch.ones(2, 1, 1).double()
    assert joint_reach(torch.tensor([[[3.0], [0.0]], [[0.0], [4.0]]]).double(), one) == pytest.approx(5.0)
    assert joint_reach(one, one) == pytest.approx(2.0)
    assert joint_reach(torch.tensor([[[1.0]], [[0.0]]]).double(), one) == pytest.approx(1.0, rel=2e-3)
    assert joint_reach(0 * one, one) == 0.0


@given(seed=st.integers(0, 100), heads=st.integers(1, 5))
def test_reach_lies_between_what_ascent_attains_and_the_two_plain_bounds(seed, heads):
    g = generator(seed)
    output = torch.randn(heads, 4, 3, generator=g, dtype=torch.float64)
    value = torch.randn(heads, 3, 5, generator=g, dtype=torch.float64)
    V = output @ value
    w = torch.randn(4, generator=g, dtype=torch.float64)
    for _ in range(200):
        pulled = torch.einsum("hod,o->hd", V, w)
        w = torch.einsum("hod,hd->o", V, pulled / pulled.norm(dim=-1, keepdim=True))
    reach = joint_reach(output, value)
    assert float(w.norm()) <= reach
    beside = float(norm_upper(V.permute(1, 0, 2).flatten(1)))
    assert reach <= min(float(norm_upper(V).sum()), math.sqrt(heads) * beside) * (1 + 1e-9)


@pytest.mark.parametrize(("seed", "share"), [(0, 0.95), (1, 0.95), (3, 1 - 1e-6)])
def test_ascent_comes_near_the_reach_of_twelve_heads(seed, share):
    """In the last case the weights of the ascent prove that its end is the maximum."""
    g = generator(seed)
    output = torch.randn(12, 48, 4, generator=g, dtype=torch.float64)
    value = torch.randn(12, 4, 48, generator=g, dtype=torch.float64)
    V, found = output @ value, 0.0
    for _ in range(5):
        w = torch.randn(48, generator=g, dtype=torch.float64)
        for _ in range(200):
            pulled = torch.einsum("hod,o->hd", V, w)
            w = torch.einsum("hod,hd->o", V, pulled / pulled.norm(dim=-1, keepdim=True))
        found = max(found, float(w.norm()))
    assert share * joint_reach(output, value) <= found <= joint_reach(output, value)


@given(seed=st.integers(0, 30), case=st.sampled_from(MORE_CASES))
def test_norms_are_those_of_the_dense_matrices(seed, case):
    layer = random_layer(case, generator(seed))
    groups = [layer.group_of(head) for head in range(layer.heads)]
    joint = joint_norms(layer)
    total = sum(layer.output[h] @ layer.value[groups[h]] for h in range(layer.heads))
    assert joint.total_value == pytest.approx(float(torch.linalg.matrix_norm(total, 2)))
    assert joint.query == pytest.approx(float(torch.linalg.matrix_norm(layer.query.reshape(-1, 5), 2)) * layer.scale)
    assert joint.key.tolist() == pytest.approx([float(torch.linalg.matrix_norm(layer.key[k], 2)) for k in groups])
    assert joint.total_value <= joint.reach * (1 + 1e-9)
