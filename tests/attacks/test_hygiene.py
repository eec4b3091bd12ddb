import pytest

from robust_attn.attacks.hygiene import hygiene_warnings


def attacked(radius: float = 0.1, change: float = 1.0, **more) -> dict:
    observed = {"input_change": radius, "output_change": change}
    place = {"model": "toy", "weights": "random:0", "layer": 0, "head": None, "sample": 0, "tokens": 4, "copies": 1}
    budget = {"kind": "wasserstein", "radius": radius}
    return {**place, "attack": "move", "budget": budget, "observed": observed, "convergence": [1.0] * 9, **more}


def test_a_sound_attack_gives_no_warning():
    assert hygiene_warnings([attacked(), attacked(0.2, 2.0)]) == []


def test_an_attack_beyond_its_budget_is_named():
    record = attacked()
    record["observed"]["input_change"] = 0.2
    (sentence,) = hygiene_warnings([record])
    assert "left their budget" in sentence
    assert sentence.startswith("1 of 1 ")


def test_an_attack_still_rising_at_its_end_is_named():
    (sentence,) = hygiene_warnings([attacked(convergence=[0.1 * k for k in range(1, 11)])])
    assert "still growing" in sentence


def test_a_larger_radius_that_is_weaker_is_named():
    assert len(hygiene_warnings([attacked(0.1, 2.0), attacked(0.2, 1.0)])) == 1


@pytest.mark.parametrize("records", [[], [attacked(attack="none")]])
def test_nothing_attacked_nothing_to_say(records):
    assert hygiene_warnings(records) == []
