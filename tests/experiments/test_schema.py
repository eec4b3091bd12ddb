import dataclasses

import pytest

from robust_attn.config import SCHEMAS
from robust_attn.experiments import schema

TASKS = [value for value in vars(schema).values() if isinstance(value, type) and dataclasses.is_dataclass(value)]


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_every_experiment_can_be_chosen_under_its_own_name(task):
    assert SCHEMAS["schema/task"][task().name] is task


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_lists_of_lengths_and_radii_are_positive_and_increasing(task):
    for field in dataclasses.fields(task):
        value = getattr(task(), field.name)
        if field.name in ("lengths", "radii") and value:
            assert value == sorted(value)
            assert value[0] > 0
