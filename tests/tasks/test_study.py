import pytest
import torch

from robust_attn.attention.mask import Mask
from robust_attn.bounds.bound import Bound
from robust_attn.pipeline.balls import (
    Configuration,
    equal_mass_bounds,
    lower_configurations,
    single_head,
    study_record,
)
from robust_attn.tasks.study import bound_lines, study_records
from robust_attn.types import Scope, Side
from tests.records.samples import study_record as sample_of_study


def test_the_three_configurations_come_with_the_bounds_they_attain():
    found = lower_configurations([[-1.0, 0.0], [0.0, 0.5]], radius=1.5, length=6)
    assert [configuration.name for configuration in found] == ["paper", "one_key", "two_key"]
    layer = single_head([[-1.0, 0.0], [0.0, 0.5]])
    upper = equal_mass_bounds(layer, radius=1.5, length=6)
    for configuration in found:
        record = study_record("test", layer, configuration, radius=1.5, upper=upper)
        assert record.verdict == "HOLDS"
        lower = [bound for bound in record.bounds if bound.side == "lower"]
        assert len(lower) == 1
        assert 10 ** lower[0].log10 <= record.lipschitz.lower <= record.lipschitz.upper


def test_only_what_applies_is_there():
    """A quarter turn has no real eigenvalue; one dimension has no room for two keys."""
    turn = lower_configurations([[0.0, -1.0], [1.0, 0.0]], radius=1.0, length=4)
    assert [configuration.name for configuration in turn] == ["one_key", "two_key"]
    line = lower_configurations([[-1.0]], radius=1.0, length=4)
    assert [configuration.name for configuration in line] == ["paper", "one_key"]


@pytest.mark.parametrize(("side", "log10"), [(Side.UPPER, -3.0), (Side.LOWER, 3.0)])
def test_a_bound_on_the_wrong_side_is_violated(side, log10):
    layer = single_head([[-1.0]])
    wrong = Bound("wrong", log10, 10**log10, Scope.GLOBAL, side)
    configuration = Configuration("any", torch.tensor([[1.0], [-1.0]]).double())
    upper = equal_mass_bounds(layer, radius=1.0, length=2)
    assert study_record("test", layer, configuration, radius=1.0, upper=upper).verdict == "HOLDS"
    assert study_record("test", layer, configuration, radius=1.0, upper=(*upper, wrong)).verdict == "VIOLATED"


def test_masks_and_choices():
    assert single_head([[1.0]], Mask.CAUSAL).mask is Mask.CAUSAL
    layer = single_head([[-1.0]])
    records = [
        study_record("test", layer, configuration, radius=1.0, upper=equal_mass_bounds(layer, radius=1.0, length=4))
        for configuration in lower_configurations([[-1.0]], radius=1.0, length=4)
    ]
    assert study_records(records, configuration="paper", tokens=4) == records[:1]
    assert study_records(records, configuration="paper", tokens=5) == []


def test_bounds_that_apply_and_can_be_drawn():
    """The mean-field bound has log10 500: beyond what a figure can hold."""
    records = [sample_of_study(tokens=n) for n in (4, 8)]
    found = bound_lines(records, "tokens")
    assert found["paper.discrete"] == ((4.0, 1e4), (8.0, 1e4))
    assert found["paper.mean_field"] == ()
    assert "paper.discrete_lower" not in found
