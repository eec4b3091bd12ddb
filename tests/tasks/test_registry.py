"""Every task is found by itself, settings and all, without anything slow."""

import math
import subprocess
import sys

import pytest

from robust_attn.records.conditions import condition_from
from robust_attn.records.kinds import KINDS
from robust_attn.settings import read, settings_of
from robust_attn.tasks.radius import RadiusTask
from robust_attn.tasks.registry import ALIASES, task_named, tasks_by_name
from robust_attn.tasks.soundness import SoundnessTask
from robust_attn.types import FieldError

TASKS = list(tasks_by_name().values())


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_lists_of_lengths_and_radii_are_positive_and_increasing(task):
    for entry in settings_of(task):
        value = getattr(task(), entry.name)
        if entry.name in ("lengths", "radii") and value:
            assert list(value) == sorted(value)
            assert value[0] > 0


def test_tasks_go_by_their_names_and_folders_by_what_is_used():
    assert all(kind.name == name for name, kind in tasks_by_name().items())
    assert len({kind.folder_name("attack", "model") for kind in TASKS}) == len(TASKS)
    assert all(task_named(old) is tasks_by_name()[new] for old, new in ALIASES.items())
    assert task_named("no such task") is None
    assert task_named(None) is None


def test_listing_the_tasks_imports_nothing_slow():
    code = (
        "import sys; from robust_attn.tasks.registry import tasks_by_name; tasks_by_name();"
        "print(sorted({'torch', 'hydra', 'transformers', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("matrix", [(), ((1.0, 2.0),), ((1.0,), (2.0,)), ((math.nan,),), "A", (("1",),), ((10**400,),)])
def test_a_matrix_is_square_and_finite(matrix):
    assert RadiusTask(((1.0, 0.0), (0.0, 1.0))).A[1] == (0.0, 1.0)
    with pytest.raises(FieldError, match=r"^A must be a square matrix"):
        read(RadiusTask, vars(RadiusTask()) | {"A": matrix})


def test_a_campaign_ends():
    with pytest.raises(FieldError, match=r"^cases and minutes cannot both be null: the campaign would never end"):
        SoundnessTask(cases=None)
    assert SoundnessTask(cases=None, minutes=0.5).minutes == 0.5
    with pytest.raises(FieldError, match="first_seed"):
        SoundnessTask(first_seed=-1)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_every_task_names_the_kinds_of_its_records(task):
    assert task.kinds
    assert set(task.kinds) <= set(KINDS)


def test_a_task_refuses_what_its_records_cannot_have_and_one_that_names_no_kinds_refuses_nothing():
    radius, flip, tight = map(condition_from, ("certified_radius<1", "flip_radius<1", "tightness<1"))
    named = tasks_by_name()
    assert named["predict"]().lacks(radius) is named["predict"]().lacks(flip) is None
    assert "have no flip_radius; they have output_change, tightness, verdict" in named["attack"]().lacks(flip)
    assert "nothing that a condition speaks of" in named["lipschitz"]().lacks(tight)
    assert "where a tolerance is given" in named["certify"]().lacks(radius)
    assert named["certify"](tolerance=0.1).lacks(radius) is None
    unsaid = type("Unsaid", (named["lipschitz"],), {"kinds": ()})
    assert unsaid().lacks(flip) is None
