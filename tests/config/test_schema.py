"""The schemas and the files of conf/ say the same: one option each, with the same names and defaults."""

from dataclasses import fields

import pytest
import yaml
from omegaconf import OmegaConf

from robust_attn.build import ATTACKS, SOURCES
from robust_attn.cli import configuration_folder
from robust_attn.config.schema import SCHEMAS
from tests.composed import composed

GROUPS = ("task", "data", "attack", "tracker")
OPTIONS = [(group, path.stem) for group in GROUPS for path in sorted((configuration_folder() / group).glob("*.yaml"))]


@pytest.mark.parametrize(("group", "option"), OPTIONS, ids=str)
def test_every_option_of_a_group_is_bound_to_a_schema_and_sets_nothing_else(group, option):
    text = yaml.safe_load((configuration_folder() / group / f"{option}.yaml").read_text())
    bound = [entry for entry in text["defaults"] if isinstance(entry, str) and entry.startswith("/schema/")]
    name = bound[0].removeprefix(f"/schema/{group}/").removesuffix("@_here_")
    schema = SCHEMAS[f"schema/{group}"][name]
    assert set(text) - {"defaults"} <= {field.name for field in fields(schema)}


@pytest.mark.parametrize("group", GROUPS)
def test_every_schema_has_an_option(group):
    assert set(SCHEMAS[f"schema/{group}"]) <= {option for kind, option in OPTIONS if kind == group}


@pytest.mark.parametrize(("group", "schemas"), SCHEMAS.items(), ids=list(SCHEMAS))
def test_a_schema_is_a_valid_structured_configuration(group, schemas):
    for name, schema in schemas.items():
        container = OmegaConf.structured(schema)
        if group != "schema" and "suite" not in container:
            assert OmegaConf.is_missing(container, "name") or container.name == name


def test_every_attack_and_source_can_be_set():
    assert set(ATTACKS) == set(SCHEMAS["schema/attack"])
    assert set(SOURCES) == set(SCHEMAS["schema/data"])


def test_a_default_of_the_schema_is_the_default_of_the_run():
    run = composed()
    assert run.certificate == OmegaConf.structured(SCHEMAS["schema"]["run"]).certificate
