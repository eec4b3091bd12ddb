"""What a run is told: every check passes in silence or raises one sentence that names the setting and what came."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.config.run import chosen_layers, plain_choice
from robust_attn.config.settings import settings_from
from robust_attn.types import FieldError, UserError
from robust_attn.work import CertificateSettings
from tests.composed import composed


@given(st.lists(st.integers(-5, 50), min_size=1))
def test_layers_come_once_each_in_the_order_given(layers):
    chosen = chosen_layers(layers)
    assert set(chosen) == set(layers)
    assert len(set(chosen)) == len(chosen)
    assert [layers.index(layer) for layer in chosen] == sorted(layers.index(layer) for layer in chosen)


@pytest.mark.parametrize("value", [True, [True], [], ["0"], 1.0, {}, None])
def test_other_layers_are_refused(value):
    with pytest.raises(FieldError) as caught:
        chosen_layers(value)
    assert repr(value) in str(caught.value)


def test_all_layers_are_those_that_a_model_has():
    assert settings_from(composed()).layers_of(3) == (0, 1, 2)
    assert settings_from(composed("layers=[2,0]")).layers_of(3) == (2, 0)


@pytest.mark.parametrize("probability", [0.0, 1.0, -1e-9, math.nan])
def test_a_failure_probability_lies_strictly_between_zero_and_one(probability):
    assert CertificateSettings(lanczos_steps=1, failure_probability=1e-300).lanczos_steps == 1
    with pytest.raises(FieldError, match=r"^failure_probability must be .*between 0 and 1, got"):
        CertificateSettings(failure_probability=probability)


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_the_seed_of_a_certificate_has_63_bits(seed):
    for right in (None, 0, 2**63 - 1):
        assert CertificateSettings(seed=right).seed == right
    with pytest.raises(FieldError, match=r"^seed must be from 0 to 9223372036854775807, got"):
        CertificateSettings(seed=seed)


def test_bfloat16_is_for_layers():
    assert settings_from(composed("dtype=bfloat16")).dtype == "bfloat16"
    with pytest.raises(UserError, match=r"^task=repeat_tokens follows gradients .*dtype must be float64 or float32"):
        settings_from(composed("task=repeat_tokens", "dtype=bfloat16"))


def test_settings_as_plain_values():
    settings = settings_from(composed("task=radius", "attack=torchattacks", "layers=[1]"))
    attack, task = plain_choice("attack", settings.attack), plain_choice("task", settings.task)
    assert attack == {"suite": "torchattacks", "name": "PGDL2", "steps": 30, "step_size": 0.25}
    assert task["A"] == [[-1.0, 0.6], [0.0, 0.5]]
    assert (task["name"], settings.layers) == ("radius", (1,))
    budget = plain_choice("budget", settings.budget)
    assert budget == {"kind": "wasserstein", "radius": 0.01, "support": "auto"}
