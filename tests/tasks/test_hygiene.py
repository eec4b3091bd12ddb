from dataclasses import replace

import pytest

from robust_attn.records.kinds import AttackRecord
from robust_attn.records.parts import BudgetPart, Certified, Hygiene, Observed
from robust_attn.tasks.hygiene import hygiene_warnings
from robust_attn.types import Verdict


def attacked(radius: float = 0.1, change: float = 1.0, **more) -> AttackRecord:
    made = AttackRecord(
        model="toy",
        weights="random:0",
        layer=0,
        tokens=4,
        attack="move",
        budget=BudgetPart(kind="wasserstein", radius=radius),
        observed=Observed(input_change=radius, output_change=change),
        certified=Certified(bound="local.hull", output_change=10.0),
        verdict=Verdict.HOLDS,
        convergence=(1.0,) * 9,
    )
    return replace(made, **more)


def test_a_sound_attack_gives_no_warning():
    assert hygiene_warnings([attacked(), attacked(0.2, 2.0)]) == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"observed": Observed(input_change=0.2, output_change=1.0)}, "left their budget"),
        ({"convergence": tuple(0.1 * k for k in range(1, 11))}, "still growing"),
        ({"hygiene": Hygiene(random=1.1)}, "weaker than random"),
        ({"hygiene": Hygiene(half=1.1)}, "less than half"),
    ],
)
def test_an_attack_that_is_not_to_be_believed_is_named(change, words):
    (sentence,) = hygiene_warnings([attacked(**change)])
    assert words in sentence
    assert sentence.startswith("1 of 1 ")


def test_a_larger_radius_that_is_weaker_is_named():
    assert len(hygiene_warnings([attacked(0.1, 2.0), attacked(0.2, 1.0)])) == 1


@pytest.mark.parametrize("records", [[], [attacked(attack="none")]])
def test_nothing_attacked_nothing_to_say(records):
    assert hygiene_warnings(records) == []
