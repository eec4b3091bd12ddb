"""What Hydra knows is what the settings say: the same names, types and defaults."""

from dataclasses import MISSING

import pytest
from omegaconf import OmegaConf
from omegaconf.errors import ValidationError

from robust_attn.config.choices import OURS, choices
from robust_attn.config.run import GROUPS, KEYS
from robust_attn.config.schema import run_schema, schema_of
from robust_attn.settings import default_of, listed, settings_of
from tests.composed import composed

CHOICES = [(group, name) for group in GROUPS for name in choices(group)]


@pytest.mark.parametrize(("group", "name"), CHOICES, ids=str)
def test_a_choice_is_a_structured_configuration_with_the_defaults_of_its_settings(group, name):
    kind = choices(group)[name]
    container = OmegaConf.structured(schema_of(group, kind))
    assert container["suite" if hasattr(kind, "suite") else KEYS.get(group, "name")] == name
    for entry in settings_of(kind):
        default = default_of(entry)
        if default is MISSING:
            assert OmegaConf.is_missing(container, entry.name)
        elif entry.name != "tolerance":  # that of the run
            assert container[entry.name] == listed(default)
    fields = {entry.name for entry in settings_of(kind)}
    assert set(container) <= fields | {"name", "kind", "suite", "defaults"}


@pytest.mark.parametrize(
    ("group", "name", "field", "value"),
    [
        ("attack", "move", "steps", "many"),
        ("task", "lipschitz", "lengths", ["a"]),
        ("task", "certify", "heads", "perhaps"),
        ("task", "soundness", "cases", "many"),
    ],
)
def test_a_value_of_another_type_is_refused(group, name, field, value):
    container = OmegaConf.structured(schema_of(group, OURS[group][name]))
    with pytest.raises(ValidationError):
        container[field] = value


def test_null_is_allowed_where_the_settings_allow_it():
    container = OmegaConf.structured(schema_of("task", OURS["task"]["soundness"]))
    container.cases = None
    with pytest.raises(ValidationError):
        container.first_seed = None


def test_a_default_of_the_schema_is_the_default_of_the_run():
    run, schema = composed(), OmegaConf.structured(run_schema())
    assert run.certificate == schema.certificate
    assert {name: run[name] for name in run if name not in GROUPS} == {
        name: schema[name] for name in schema if name not in GROUPS
    }
