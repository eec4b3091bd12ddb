"""Settings check themselves in words that need no command line, and say what would have been right."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from robust_attn.settings import Limits, Settings, default_of, limits_of, read, required, setting, settings_of
from robust_attn.types import FieldError


@dataclass(frozen=True)
class Walk(Settings):
    """A walk."""

    place: str = required("where to")
    steps: int = setting(8, "how many", least=0)
    share: float = setting(0.5, "of the way", above=0, below=1)
    lengths: tuple[int, ...] = setting([2, 4], "in turn", least=1)
    pace: float | str = setting("slow", "how fast", words=("slow", "fast"), above=0)
    days: int | str = setting("all", "when", words=("all",), least=1, whole=True)
    year: int = setting(3, "the month", least=0, most=12)
    name: ClassVar[str] = "walk"


@dataclass(frozen=True)
class LongWalk(Walk):
    """The same, done."""


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"steps": -1}, "steps must be at least 0, got -1."),
        ({"share": float("nan")}, "share must be finite and between 0 and 1, got nan."),
        ({"steps": None}, "steps must be at least 0, got None."),
        ({"steps": (1, 2)}, "steps must be at least 0, got [1, 2]."),
        ({"place": " "}, "place is empty: expected where to."),
        ({"share": 10**400}, f"share must be finite and between 0 and 1, got {10**400}."),
        ({"days": 1.5}, "days must be 'all' or a whole number at least 1, got 1.5."),
        ({"days": (1,)}, "days must be 'all' or a whole number at least 1, got [1]."),
        ({"year": 13}, "year must be from 0 to 12, got 13."),
        ({"share": 1.0}, "share must be between 0 and 1, got 1.0."),
        ({"lengths": (3, 0)}, "lengths must be at least 1, got 0."),
        ({"pace": "idle"}, "pace must be one of slow, fast or above 0, got 'idle'."),
        ({"pace": -2.0}, "pace must be one of slow, fast or above 0, got -2.0."),
        ({"pace": True}, "pace must be one of slow, fast or above 0, got True."),
    ],
)
def test_a_value_beyond_its_limits_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(FieldError) as refusal:
        read(Walk, vars(Walk("home")) | given)
    assert str(refusal.value) == sentence
    assert str(refusal.value.of_setting("task")) == f"task.{sentence}"


def test_what_is_allowed_passes():
    assert Walk("home", steps=0, share=0.1, lengths=(1,), pace=3).pace == 3
    assert Walk("home", pace="fast").pace == "fast"


def test_fields_carry_default_description_and_limits():
    described = {entry.name: (default_of(entry), limits_of(entry).help) for entry in settings_of(Walk)}
    assert described["steps"] == (8, "how many")
    assert described["lengths"] == ((2, 4), "in turn")
    assert limits_of(next(settings_of(Walk))) == Limits("where to")


def test_the_class_that_does_the_work_has_the_same_fields():
    class Far(Walk):
        implementation: ClassVar[str | None] = f"{__name__}:LongWalk"

    made = Far("home", steps=3).made()
    assert isinstance(made, LongWalk)
    assert (made.place, made.steps) == ("home", 3)
    assert Walk("home").made().place == "home"
