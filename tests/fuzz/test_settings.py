"""Every key with values of every kind: settings come out, or one sentence; never another exception."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import DictConfig

from robust_attn.config.sentences import is_about_settings, sentence_of
from robust_attn.config.settings import settings_from
from robust_attn.types import UserError
from tests.composed import composed
from tests.selection import examples

GROUPS = (
    ("model=toy", "attack=mass_split", "data=gaussian"),
    ("task=certify", "model=bert", "attack=torchattacks", "data=hub"),
    ("task=lipschitz", "model=toy", "attack=duplicate", "data=sphere"),
    ("task=soundness", "attack=random", "tracker=none"),
    ("task=unbalanced", "attack=none"),
    ("task=worst_case", "budget=per_token", "data=digits", "model=vit"),
    ("task=through_model", "model=injection"),
    ("task=mass_splitting",),
    ("task=mean_field",),
    ("task=repeat_tokens", "model=injection"),
)


def keys(config: DictConfig, prefix: str = "") -> list[str]:
    """Dotted names of everything that can be set."""
    found = []
    for name in config:
        value = config._get_node(name)
        found += keys(value, f"{prefix}{name}.") if isinstance(value, DictConfig) else [f"{prefix}{name}"]
    return found


@cache
def places() -> list[tuple[tuple[str, ...], str]]:
    """Every group with every key of it: composed when a test asks, because every worker collects every test."""
    return [(group, key) for group in GROUPS for key in keys(composed(*group))]


PLACES = st.deferred(lambda: st.sampled_from(places()))
WORDS = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
ODD = (
    *("null", "true", "[]", "{}", "[1,2]", "[[1]]", "{a:1}", "???", "''", "nan", "inf", "-inf", "1e400", "[nan]"),
    *("${seed}", "${nowhere}", "${oc.env:NOWHERE}", "${", "\\", "[", "'", "a=b", "all", "auto", "[true]", "[-1]"),
    *("{_target_:os.system}", "0x10", "1_000", "[a,[b,{c:d}]]", "\u202e", "\x00", "9" * 400),
)
VALUES = st.one_of(
    st.integers(-(10**20), 10**20).map(str),
    st.floats().map(str),
    st.sampled_from(ODD),
    WORDS,
    WORDS.map(lambda word: f"'{word}'"),
)


def check_settings(place: tuple[tuple[str, ...], str], value: str) -> None:
    group, key = place
    try:
        found = settings_from(composed(*group, f"{key}={value}"))
    except Exception as error:
        if not is_about_settings(error):
            raise
        return
    assert found.tokens >= 1


@examples(in_ci=25)
@given(place=PLACES, value=VALUES)
def test_any_value_for_any_key_is_settings_or_one_sentence(place, value):
    check_settings(place, value)


@pytest.mark.slow
@settings(max_examples=400)
@given(place=PLACES, value=VALUES)
def test_many_values_for_every_key_are_settings_or_one_sentence(place, value):
    check_settings(place, value)


def test_a_whole_number_that_no_float_can_hold_is_told_in_one_sentence():
    with pytest.raises(OverflowError) as told:
        composed("model=toy", "budget.radius=" + "9" * 400)
    assert is_about_settings(told.value)
    assert sentence_of(told.value) == "budget.radius is too large a number."
    assert not is_about_settings(OverflowError("math range error"))


def test_there_is_a_key_of_every_group():
    names = {key for _, key in places()}
    assert {"task.lengths", "model.sizes", "attack.copies", "budget.support", "certificate.deterministic"} <= names
    assert len(names) > 60


@pytest.mark.parametrize("group", ["model", "data", "attack", "budget", "tracker", "task", "certificate"])
def test_a_target_is_no_setting(group):
    """Hydra's way to call any function from a configuration leads nowhere here."""
    with pytest.raises(UserError, match="no setting"):
        settings_from(composed("model=toy", f"+{group}._target_=os.system"))


def test_what_is_added_by_force_is_no_setting_either():
    with pytest.raises(UserError, match=r"no setting 'attack[.]copies'"):
        settings_from(composed("model=toy", "attack=move", "+attack.copies=3"))
    with pytest.raises(UserError, match="no setting 'anything'"):
        settings_from(composed("model=toy", "+anything=3"))
