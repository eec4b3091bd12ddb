"""Shares of a path: integrals of (1 - t)^k over its parts."""

import pytest

from robust_attn.budget import Wasserstein
from robust_attn.certificates.path import FINE_PATH, PATH, along_path, path_mean


def test_a_constant_is_integrated_exactly():
    """1, 1/2 and 1/6."""
    assert [path_mean([1.0] * 4, order) for order in (1, 2, 3)] == pytest.approx([1, 1 / 2, 1 / 6])


def test_shares_by_hand():
    """What counts up to a quarter of the way alone: 1/4, (1 - 9/16) / 2 = 7/32 and (1 - 27/64) / 6 = 37/384."""
    first = [1.0, 0.0, 0.0, 0.0]
    assert [path_mean(first, order) for order in (1, 2, 3)] == pytest.approx([1 / 4, 7 / 32, 37 / 384])


def test_a_finer_path_has_the_same_whole():
    """Eight parts, of which the first counts (1 - 343/512) / 6 = 169/3072 of the third order."""
    assert path_mean([1.0] * 8, 3, FINE_PATH) == pytest.approx(1 / 6)
    assert path_mean([1.0] + [0.0] * 7, 3, FINE_PATH) == pytest.approx(169 / 3072)


def test_budgets_grow_to_the_whole_one():
    assert [budget.radius for budget in along_path(Wasserstein(0.2))] == [0.2 * part for part in PATH]
