"""Every check passes in silence or raises one sentence that names the setting and what came."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.config.checks import (
    at_least,
    check_budget,
    check_certificate,
    check_dtype,
    check_sizes,
    check_task,
    chosen_layers,
    non_negative,
    one_of,
)
from robust_attn.types import UserError


def refused(check, *values) -> str:
    with pytest.raises(UserError) as caught:
        check(*values)
    return str(caught.value)


@given(st.floats(allow_nan=True, allow_infinity=True))
def test_a_radius_is_taken_just_when_it_is_finite_and_not_negative(radius):
    budget = {"radius": radius, "support": "auto", "kind": "wasserstein"}
    if radius == 0 or 1e-140 <= radius < math.inf:
        check_budget(budget)
    else:
        assert f"got {radius}" in refused(check_budget, budget)


@given(st.one_of(st.booleans(), st.none(), st.text(max_size=8), st.floats(max_value=0.0)))
def test_a_support_is_a_name_or_a_number_above_zero(support):
    if support in ("auto", "tokens", "normalization"):
        return
    assert refused(check_budget, {"radius": 1.0, "support": support, "kind": "frobenius"}).startswith(
        "budget.support must be"
    )


@given(st.lists(st.integers(-5, 50), min_size=1))
def test_layers_come_once_each_in_the_order_given(layers):
    chosen = chosen_layers(layers)
    assert chosen is not None
    assert set(chosen) == set(layers)
    assert len(set(chosen)) == len(chosen)
    assert [layers.index(layer) for layer in chosen] == sorted(layers.index(layer) for layer in chosen)


@pytest.mark.parametrize("value", [True, [True], [], ["0"], 1.0, {}, None])
def test_other_layers_are_refused(value):
    assert repr(value) in refused(chosen_layers, value)


@pytest.mark.parametrize("probability", [0.0, 1.0, -1e-9, math.nan])
def test_a_failure_probability_lies_strictly_between_zero_and_one(probability):
    check_certificate({"lanczos_steps": 1, "failure_probability": 1e-300, "seed": None})
    values = {"lanczos_steps": 1, "failure_probability": probability, "seed": None}
    assert "failure_probability must lie between 0 and 1" in refused(check_certificate, values)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_the_seed_of_a_certificate_has_63_bits(seed):
    values = {"lanczos_steps": 1, "failure_probability": 1e-9}
    for right in (None, 0, 2**63 - 1):
        check_certificate(values | {"seed": right})
    assert "certificate.seed must be null or from 0 to 2^63 - 1" in refused(check_certificate, values | {"seed": seed})


def test_numbers_and_names():
    at_least("tokens", 1, 1)
    non_negative("radius", 0.0)
    one_of("dtype", "float64", ("float64",))
    assert refused(at_least, "tokens", 0, 1) == "tokens must be at least 1, got 0."
    assert refused(non_negative, "radius", -1) == "radius must be a finite number that is not negative, got -1."
    assert refused(one_of, "dtype", "half", ("a", "b")) == "dtype must be one of a, b, got 'half'."
    assert "names with values" in refused(check_sizes, {"sizes": {1: 2}})


def test_bfloat16_is_for_layers():
    check_dtype("bfloat16", "attack")
    assert refused(check_dtype, "bfloat16", "repeat_tokens").startswith("task=repeat_tokens follows gradients")


@pytest.mark.parametrize("matrix", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[math.nan]], "A", [["1"]]])
def test_a_matrix_is_square_and_finite(matrix):
    check_task({"name": "radius", "A": [[1.0, 0.0], [0.0, 1.0]]})
    assert refused(check_task, {"name": "radius", "A": matrix}).startswith("task.A must be a square matrix")


def test_a_campaign_ends():
    campaign = {"name": "soundness", "cases": None, "minutes": None, "first_seed": 0}
    assert "would never end" in refused(check_task, campaign)
    check_task(campaign | {"minutes": 0.5})
    assert "task.first_seed" in refused(check_task, campaign | {"cases": 1, "first_seed": -1})


def test_budgets_are_known_without_importing_them():
    from robust_attn.budget import BUDGETS

    budget = {"radius": 1.0, "support": "auto"}
    assert refused(check_budget, budget | {"kind": "foo"}).startswith("budget.kind must be one of")
    for kind in BUDGETS:
        check_budget(budget | {"kind": kind})
