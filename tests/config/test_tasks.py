import math

import pytest

from robust_attn.build import STUDIES
from robust_attn.config.tasks import TASKS, RadiusTask, SoundnessTask
from robust_attn.settings import read, settings_of
from robust_attn.types import FieldError


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.__name__)
def test_lists_of_lengths_and_radii_are_positive_and_increasing(task):
    for entry in settings_of(task):
        value = getattr(task(), entry.name)
        if entry.name in ("lengths", "radii") and value:
            assert list(value) == sorted(value)
            assert value[0] > 0


def test_studies_are_tasks():
    assert set(STUDIES) <= {task.name for task in TASKS}


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
