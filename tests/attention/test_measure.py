import pytest
import torch

from robust_attn.attention.measure import TokenMeasure, stack


def points(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_uniform_has_equal_masses_and_consecutive_positions():
    measure = TokenMeasure.uniform(points(2, 4, 3))
    assert torch.allclose(measure.masses, torch.full((2, 4), 0.25).double())
    assert measure.positions.tolist() == [[0, 1, 2, 3]] * 2


def test_split_keeps_the_measure_and_shares_positions():
    measure = TokenMeasure.weighted(points(2, 3), torch.tensor([0.2, 0.8]).double()).split(2)
    assert measure.positions.tolist() == [0, 0, 1, 1]
    assert torch.allclose(measure.masses, torch.tensor([0.1, 0.1, 0.4, 0.4]).double())
    assert torch.equal(measure.points[0], measure.points[1])


@pytest.mark.parametrize("masses", [[0.5, 0.6], [-0.5, 1.5], [0.0, 0.0]])
def test_masses_that_are_none_are_refused(masses):
    with pytest.raises(ValueError, match="sum to one"):
        TokenMeasure.weighted(points(2, 3), torch.tensor(masses).double())


def test_no_copies_are_refused():
    with pytest.raises(ValueError, match="at least 1"):
        TokenMeasure.uniform(points(2, 3)).split(0)


def test_padded_gives_mass_to_the_first_tokens_only():
    measure = TokenMeasure.padded(points(2, 4, 3), torch.tensor([1, 3]))
    assert measure.masses[0].tolist() == [1, 0, 0, 0]
    assert measure.present[1].tolist() == [True, True, True, False]


def test_radius_ignores_padding():
    x = torch.tensor([[[1.0], [5.0]]]).double()
    assert TokenMeasure.padded(x, torch.tensor([1])).radius.tolist() == [1.0]
    assert TokenMeasure.uniform(x).radius.tolist() == [5.0]


def test_shapes_must_agree():
    with pytest.raises((ValueError, TypeError)):
        TokenMeasure(points(3, 2), points(4).abs(), torch.arange(3))


def test_stack_and_sample_are_inverse():
    one, two = TokenMeasure.uniform(points(3, 2)), TokenMeasure.uniform(points(3, 2) + 1)
    assert torch.equal(stack([one, two]).sample(1).points, two.points)


def test_conversion_keeps_total_mass():
    measure = TokenMeasure.uniform(points(7, 2)).to(torch.float32)
    assert abs(float(measure.masses.sum()) - 1) <= 1e-6
    assert measure.points.dtype == torch.float32
