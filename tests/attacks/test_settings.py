"""Settings of attacks are those of the attacks: defaults and limits are written once, and cost no torch."""

import subprocess
import sys
from dataclasses import fields

import pytest

from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.settings import ATTACKS, MassSplitSettings, MoveSettings, TorchattacksSettings
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.settings import limits_of
from robust_attn.types import FieldError, UserError


@pytest.mark.parametrize(("name", "kind"), ATTACKS.items())
def test_settings_make_their_attack_with_the_same_fields(name, kind):
    made = kind().made()
    assert isinstance(made, kind)
    assert [each.name for each in fields(made)] == [each.name for each in fields(kind)]
    assert name in (made.name, getattr(made, "suite", None))
    assert all(limits_of(each).help for each in fields(kind))


def test_values_reach_the_attack():
    assert MassSplitSettings(3, tokens=2).made() == MassSplit(3, tokens=2)
    assert TorchattacksSettings("PGD", 7, 0.5).made() == Torchattack("PGD", 7, 0.5)


def test_a_part_of_a_token_is_no_number_of_tokens():
    """Set behind the back of the type checker that tests run under."""
    attack = MassSplit()
    object.__setattr__(attack, "tokens", 2.5)
    with pytest.raises(FieldError, match=r"tokens must be all or a whole number, got 2\.5"):
        attack.__post_init__()


def test_all_tokens_in_two_ways():
    assert MassSplit(tokens=None).some_tokens is MassSplit(tokens="all").some_tokens is MassSplit().some_tokens is None
    assert MassSplit(tokens=3).some_tokens == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MassSplit(0), "copies must be at least 1, got 0."),
        (lambda: MoveSettings(-1), "steps must be at least 0, got -1."),
        (lambda: MassSplit(tokens=0), "tokens must be 'all' or at least 1, got 0."),
        (lambda: MassSplit(tokens="some"), "tokens must be 'all' or at least 1, got 'some'."),
        (lambda: MassSplit(masses="odd"), "masses must be one of best, equal, sliver, got 'odd'."),
        (lambda: MassSplit(context=1.0), "context must be 'model' or at least 2, got 1.0."),
        (lambda: Torchattack("PGD", step_size=0.0), "step_size must be above 0, got 0.0."),
        (lambda: Torchattack("PGD", suite="foolbox"), "suite must be 'torchattacks', got 'foolbox'."),
    ],
)
def test_wrong_values_are_told_in_the_words_of_the_library(make, message):
    with pytest.raises(FieldError) as caught:
        make()
    assert str(caught.value) == message


@pytest.mark.parametrize("options", [{"copies": 3}, {"tokens": 1}])
def test_a_sliver_is_one_part_of_one_token(options):
    with pytest.raises(UserError, match="A sliver is one piece of one token"):
        MassSplit(masses=Masses.SLIVER, **options)


def test_nothing_slow_is_imported():
    code = "import sys, robust_attn.attacks.settings; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
