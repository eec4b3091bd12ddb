import pytest

from robust_attn.report.sensitivity import constants_of, growth_of, search_row
from robust_attn.types import Verdict

from .sample_runs import constant_record, search_record


def test_means_are_taken_over_samples_and_the_exponent_is_that_of_the_power_law() -> None:
    lines = [
        constant_record(1, sample, tokens=n, value=n**0.5 * (1 + sample)) for n in (4, 16, 64) for sample in (0, 1)
    ]
    (growth,) = growth_of(constants_of(lines))
    assert growth.means == pytest.approx({4: 3.0, 16: 6.0, 64: 12.0})
    assert growth.exponent == pytest.approx(0.5)
    assert growth.name == "layer 1"


def test_one_length_has_no_exponent() -> None:
    (growth,) = growth_of(constants_of([constant_record(tokens=8)]))
    assert growth.exponent is None


def test_radii_and_layers_are_kept_apart_and_heads_left_out() -> None:
    lines = [constant_record(layer, tokens=8) | {"scaled_to": radius} for layer in (2, 0) for radius in (4.0, 1.0)]
    growth = growth_of(constants_of([*lines, constant_record(0) | {"head": 1}]))
    assert [line.name for line in growth] == [f"layer {n}, radius {r}" for n in (0, 2) for r in (1, 4)]


def test_unknown_constants_are_kept_as_unknown_and_not_averaged() -> None:
    unknown = constant_record() | {"lipschitz": {"lower": None, "upper": None}}
    (constant,) = constants_of([unknown])
    assert (constant.lower, constant.upper, constant.failure_probability) == (None, None, None)
    assert growth_of([constant]) == ()


def test_a_search_is_a_row_of_gains() -> None:
    row = search_row(search_record(3, found=0.9, proved=2.5))
    assert (row.gain, row.certified, row.bound, row.verdict) == (0.9, 2.5, "sharp.unified", Verdict.HOLDS)
    assert [rung.name for rung in row.ladder if rung.certifies] == ["sharp.unified"]


def test_a_search_without_a_finite_bound_is_unknown() -> None:
    line = search_record() | {"certified": {"bound": "paper.discrete", "constant": None}}
    assert search_row(line).verdict is Verdict.UNKNOWN
