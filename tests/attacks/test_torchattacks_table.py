"""The table speaks of every attack that torchattacks exports, once."""

import inspect

import pytest
import torchattacks

from robust_attn.attacks.torchattacks_table import SUITABLE, UNSUITABLE, checked_name
from robust_attn.types import UserError


def exported() -> set[str]:
    return {
        name
        for name, kind in vars(torchattacks).items()
        if inspect.isclass(kind) and issubclass(kind, torchattacks.attack.Attack)
    }


def test_every_attack_is_in_one_table_and_only_in_one():
    assert set(SUITABLE) | set(UNSUITABLE) == exported()
    assert not set(SUITABLE) & set(UNSUITABLE)


def test_every_reason_is_one_sentence():
    for reason in UNSUITABLE.values():
        assert reason.startswith("it ")
        assert not set(reason) & set(".\n")


@pytest.mark.parametrize("name", ["CW", "PGDL3"])
def test_a_name_that_does_not_do_lists_those_that_do(name):
    with pytest.raises(UserError, match=r"suitable are APGD, .*VNIFGSM") as caught:
        checked_name(name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_suitable_name_passes():
    assert checked_name("PGDL2") == "PGDL2"
