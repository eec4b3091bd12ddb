import torch

from robust_attn.attention.mask import Mask, log_weight, visible


def test_causal_copies_see_each_other():
    positions, masses = torch.tensor([0, 0, 1]), torch.full((3,), 1 / 3).double()
    assert visible(Mask.CAUSAL, positions, masses).tolist() == [
        [True, True, False],
        [True, True, False],
        [True, True, True],
    ]


def test_nobody_sees_padding():
    positions, masses = torch.arange(3), torch.tensor([0.5, 0.5, 0.0]).double()
    assert visible(Mask.NONE, positions, masses)[:, 2].tolist() == [False] * 3


def test_log_weight_is_log_mass_where_visible():
    positions, masses = torch.arange(2), torch.tensor([0.25, 0.75]).double()
    expected = torch.tensor([[0.25, 0.0], [0.25, 0.75]]).double().log()
    assert torch.equal(log_weight(Mask.CAUSAL, positions, masses), expected)


def test_rows_select_a_block():
    positions, masses = torch.arange(4), torch.full((4,), 0.25).double()
    whole = visible(Mask.CAUSAL, positions, masses)
    assert torch.equal(visible(Mask.CAUSAL, positions, masses, slice(1, 3)), whole[1:3])
