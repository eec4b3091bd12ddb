import pytest
import torch

from robust_attn.attacks.copies import antisymmetric_starts, cut, equal_parts, query_blocks
from robust_attn.budget import Wasserstein
from robust_attn.spectral.lipschitz import split_lipschitz
from tests.cases import CASES, Case, generator, random_layer, random_measure


@pytest.mark.parametrize("case", CASES, ids=str)
def test_parts_make_the_same_measure_and_the_same_output(case):
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    some = torch.tensor([[0, 2], [1, 3]])
    for split in (equal_parts(measure, 3), equal_parts(measure, 2, some), cut(measure, some[:, 0], some[:, 0] * 1e-3)):
        assert torch.allclose(split.base.masses.sum(-1), torch.ones(2, dtype=torch.float64))
        assert torch.equal(split.lifted(measure.points), split.base.points)
        assert torch.allclose(layer(split.base), split.lifted(layer(measure)), atol=1e-12)


def test_parts_of_some_tokens_by_hand():
    split = equal_parts(random_measure(Case(), generator(0), samples=1), 3, torch.tensor([[2]]))
    assert split.origin.tolist() == [[0, 1, 2, 2, 2, 3]]
    assert split.rank.tolist() == [[0, 0, 0, 1, 2, 0]]
    assert split.base.masses[0].tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 12, 1 / 12, 1 / 12, 1 / 4])


@pytest.mark.parametrize("copies", [2, 3, 4, 5])
def test_pieces_part_about_their_mean_and_no_two_stay_together(copies):
    """Offsets (copies - 1) / 2, ..., -(copies - 1) / 2, in the whole budget."""
    layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    split, budget = equal_parts(measure, copies), Wasserstein(0.1)
    blocks = query_blocks(layer, measure, generator(2))
    offsets = (copies - 1) / 2 - torch.arange(copies, dtype=torch.float64)
    for start in antisymmetric_starts(split, budget, blocks):
        gaps = start.unflatten(-2, (measure.length, copies))
        assert torch.allclose(gaps, gaps[..., :1, :] * (offsets / offsets[0])[:, None])
        assert float(budget.norm(start, split.base)) == pytest.approx(0.1)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_largest_query_block_is_the_constant_of_zero_mean_motion(case):
    """At a tiny radius two parts sent to opposite sides gain |V C_i A|, which never exceeds the constant of copies."""
    layer, measure, budget = random_layer(case, generator(0)), random_measure(case, generator(1)), Wasserstein(1e-6)
    blocks = query_blocks(layer, measure, generator(2))
    split = equal_parts(measure, 2)
    alone, together = antisymmetric_starts(split, budget, blocks)
    for start in (alone, together):
        mean = torch.zeros_like(measure.points).scatter_add(
            -2, split.origin[..., None].expand_as(start), split.base.masses[..., None] * start
        )
        assert mean.abs().max() < 1e-15
    moved = budget.norm(layer(split.base.with_points(split.base.points + alone)) - layer(split.base), split.base)
    gain = moved / budget.norm(alone, split.base)
    assert torch.allclose(gain, blocks.gain.amax(-1), rtol=1e-3, atol=1e-9)
    assert (gain <= split_lipschitz(layer, measure, weights=measure.masses).upper * (1 + 1e-6)).all()
