"""Partitions behind joint cumulants: counted by hand, and against cumulants of numbers."""

import itertools
import math

import pytest
import torch

from robust_attn.bounds.cumulants import Parting, alike, all_partings, joint_partings, partings
from tests.cases import generator


def test_of_three_and_four_by_hand():
    """kappa(x, y^3) = E xy^3 - 3 E xy E y^2; kappa(x, y^4) = E xy^4 - 4 E xy E y^3 - 6 E xy^2 E y^2."""
    assert partings(3) == (Parting(3, 1, (2,)), Parting(1, 3, ()))
    assert partings(4) == (Parting(4, 1, (3,)), Parting(6, 2, (2,)), Parting(1, 4, ()))


def test_joint_ones_by_hand():
    """kappa(x, z, y) = E xzy; kappa(x, z, y^2) = E xzy^2 - E xz E y^2 - 2 E xy E zy."""
    assert joint_partings(1) == (Parting(1, 1, ()),)
    assert joint_partings(2) == (Parting(1, 0, (2,)), Parting(1, 2, ()), Parting(2, 1, (), beside=1))


def test_all_of_them_by_hand():
    """Of three 1; of four 1 + 3; of five 1 + 10; of six 1 + 15 + 10 + 2 * 15."""
    assert [all_partings(count) for count in (2, 3, 4, 5, 6)] == [1, 1, 4, 11, 56]


def test_blocks_of_one_size_are_not_told_apart_within_a_group():
    """Four in two pairs: 3 ways; in two pairs that have names: 6."""
    assert (alike(4, (2, 2)), alike(4, (2,), (2,))) == (3, 6)


def set_partitions(items):
    """All of them, as lists of blocks."""
    if not items:
        yield []
        return
    first, *rest = items
    for count in range(len(rest) + 1):
        for others in itertools.combinations(rest, count):
            left = [each for each in rest if each not in others]
            for blocks in set_partitions(left):
                yield [[first, *others], *blocks]


def cumulant(p, *variables):
    """By the definition, over all partitions."""
    centred = [each - (p * each).sum() for each in variables]
    total = 0.0
    for blocks in set_partitions(list(range(len(variables)))):
        means = [float((p * math.prod(centred[index] for index in block)).sum()) for block in blocks]
        total += (-1) ** (len(blocks) - 1) * math.factorial(len(blocks) - 1) * math.prod(means)
    return total


def moment(p, *variables):
    return float((p * math.prod(variables)).sum())


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
@pytest.mark.parametrize("joint", [False, True])
def test_they_add_up_to_the_cumulant(count, joint):
    g = generator(count)
    p = torch.randn(7, generator=g, dtype=torch.float64).softmax(0)
    x, y, z = (each - (p * each).sum() for each in torch.randn(3, 7, generator=g, dtype=torch.float64))
    total = 0.0
    for each in joint_partings(count) if joint else partings(count):
        with_x = [x, *[y] * each.own, *([z] if joint and each.beside == 0 else [])]
        with_z = moment(p, z, *[y] * each.beside) if each.beside else 1.0
        others = math.prod(moment(p, *[y] * size) for size in each.others)
        sign = (-1) ** (len(each.others) + (each.beside > 0))
        total += sign * each.weight * moment(p, *with_x) * with_z * others
    expected = cumulant(p, x, *([z] if joint else []), *[y] * count)
    assert total == pytest.approx(expected, rel=1e-10)
