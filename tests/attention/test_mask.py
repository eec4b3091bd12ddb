import pytest
import torch

from robust_attn.attention.mask import Mask, Window, log_weight, visible


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


def test_a_window_by_hand():
    positions, masses = torch.arange(4), torch.full((4,), 0.25).double()
    assert visible(Window(1, 0), positions, masses).long().tolist() == [
        [1, 0, 0, 0],
        [1, 1, 0, 0],
        [0, 1, 1, 0],
        [0, 0, 1, 1],
    ]
    assert visible(Window(0, 2), positions, masses)[0].tolist() == [True, True, True, False]


def test_copies_of_a_token_stay_together_in_a_window():
    positions, masses = torch.tensor([0, 0, 1, 1, 2]), torch.full((5,), 0.2).double()
    seen = visible(Window(1, 0), positions, masses)
    assert seen[3].tolist() == [True, True, True, True, False]
    assert seen[4].tolist() == [False, False, True, True, True]


def test_a_window_as_wide_as_the_text_is_the_mask_without_it():
    positions, masses = torch.arange(5), torch.tensor([0.4, 0.0, 0.2, 0.2, 0.2]).double()
    for window, mask in ((Window(4, 0), Mask.CAUSAL), (Window(4, 4), Mask.NONE)):
        assert torch.equal(visible(window, positions, masses), visible(mask, positions, masses))
        expected = log_weight(mask, positions, masses).expand(5, 5)
        assert torch.equal(log_weight(window, positions, masses), expected)


@pytest.mark.parametrize("mask", [Mask.NONE, Mask.CAUSAL, Window(2, 1)], ids=str)
def test_reach_says_what_is_seen(mask):
    positions, masses = torch.arange(7), torch.full((7,), 1 / 7).double()
    before, after = mask.reach
    expected = [[i - before <= j <= i + after for j in range(7)] for i in range(7)]
    assert visible(mask, positions, masses).tolist() == expected


def test_a_window_does_not_reach_backwards():
    with pytest.raises(ValueError, match="0 or more"):
        Window(-1)
