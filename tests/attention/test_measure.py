import pytest
import torch

from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.models import load_model


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


def test_a_split_measure_knows_its_tokens():
    measure = TokenMeasure.weighted(points(2, 3), torch.tensor([0.2, 0.8]).double())
    tokens, copies = measure.split(3).merged()
    assert copies == 3
    assert torch.equal(tokens.points, measure.points)
    assert torch.allclose(tokens.masses, measure.masses, rtol=1e-15)
    assert torch.equal(tokens.positions, measure.positions)
    assert measure.merged()[1] == 1


@pytest.mark.parametrize("field", ["points", "masses", "positions"])
def test_atoms_that_differ_in_anything_are_no_copies(field):
    measure = TokenMeasure.uniform(points(2, 3)).split(2)
    parts = {name: getattr(measure, name).clone() for name in ("points", "masses", "positions")}
    parts[field][0] += 1
    assert TokenMeasure(**parts).merged()[1] == 1


NO_MASSES = ([-0.5, 1.5], [0.0, 0.0], [float("nan"), 1.0], [float("nan")] * 2, [float("inf"), 0.0])


@pytest.mark.parametrize("masses", [[0.5, 0.6], *NO_MASSES])
def test_masses_that_are_none_are_refused(masses):
    with pytest.raises(ValueError, match="sum to one"):
        TokenMeasure.weighted(points(2, 3), torch.tensor(masses).double())


@pytest.mark.parametrize("masses", NO_MASSES)
def test_masses_that_are_none_are_refused_where_a_measure_is_used(masses):
    """One sample of two is wrong; the constructor has looked at shapes alone."""
    both = torch.tensor([[0.5, 0.5], masses]).double()
    measure = TokenMeasure(points(2, 2, 3), both, torch.arange(2).expand(2, 2))
    for dtype in (torch.float64, torch.float32):
        with pytest.raises(ValueError, match="finite and non-negative and have a positive sum in every sample"):
            measure.to(dtype)


def test_a_certificate_of_masses_that_are_none_is_refused():
    """It once failed deep inside, or spoke of a measure with negative mass."""
    layer = load_model("toy", "random").layer(0)
    for masses in NO_MASSES:
        measure = TokenMeasure(points(2, 16), torch.tensor(masses).double(), torch.arange(2))
        with pytest.raises(ValueError, match="positive sum in every sample"):
            certify(layer, measure, Wasserstein(0.01))


@pytest.mark.parametrize("lengths", [[0, 3], [-1, 3], [5, 3]])
def test_lengths_that_leave_no_token_or_more_than_there_are_are_refused(lengths):
    with pytest.raises(ValueError, match=rf"lengths must lie between 1 and 4, got \[{lengths[0]}, 3\]"):
        TokenMeasure.padded(points(2, 4, 3), torch.tensor(lengths))


def test_no_tokens_are_no_measure():
    with pytest.raises(ValueError, match="at least one token"):
        TokenMeasure.uniform(points(0, 3))


def test_building_a_measure_from_its_parts_asks_for_no_values():
    """So that it can be done inside every transform of torch; `meta` tensors have no values at all."""
    x = torch.empty(4, 3, device="meta")
    assert TokenMeasure(x, x[:, 0], torch.empty(4, dtype=torch.int64, device="meta")).split(2).length == 8
    measure = TokenMeasure.uniform(points(4, 3))
    summed = torch.func.vmap(lambda m: (TokenMeasure(measure.points, m, measure.positions).masses).sum())
    assert summed(torch.eye(4)).tolist() == [1, 1, 1, 1]


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
