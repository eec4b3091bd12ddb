import pytest

from robust_attn.config.choices import OURS, USUAL, choices
from robust_attn.config.run import GROUPS
from robust_attn.settings import called, limits_of, settings_of, summary_of


def test_every_group_has_choices_and_a_usual_one():
    assert set(OURS) == set(USUAL) == set(GROUPS)
    for group in GROUPS:
        assert USUAL[group] in choices(group)


@pytest.mark.parametrize("group", GROUPS)
def test_every_choice_and_every_setting_is_described(group):
    for name, kind in OURS[group].items():
        assert called(kind) == name
        assert summary_of(kind), name
        for entry in settings_of(kind):
            assert limits_of(entry).help, f"{group}.{entry.name}"


@pytest.mark.parametrize("group", GROUPS)
def test_what_can_be_made_without_being_told_is(group):
    for name, kind in OURS[group].items():
        if (group, name) not in (("data", "text"), ("data", "rows"), ("data", "images")):
            assert kind() == kind()
