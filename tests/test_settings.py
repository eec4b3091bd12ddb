"""Settings check themselves in words that need no command line, and say what would have been right."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from robust_attn.settings import Limits, Settings, default_of, limits_of, required, setting, settings_of
from robust_attn.types import FieldError


@dataclass(frozen=True)
class Walk(Settings):
    """A walk."""

    place: str = required("where to")
    steps: int = setting(8, "how many", least=0)
    share: float = setting(0.5, "of the way", above=0, below=1)
    lengths: tuple[int, ...] = setting([2, 4], "in turn", least=1)
    pace: float | str = setting("slow", "how fast", words=("slow", "fast"), above=0)
    name: ClassVar[str] = "walk"


@dataclass(frozen=True)
class LongWalk(Walk):
    """The same, done."""


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"steps": -1}, "steps must be at least 0, got -1."),
        ({"steps": float("nan")}, "steps must be at least 0, got nan."),
        ({"share": 1.0}, "share must be above 0 and below 1, got 1.0."),
        ({"lengths": (3, 0)}, "lengths must be at least 1, got 0."),
        ({"pace": "idle"}, "pace must be one of slow, fast or above 0, got 'idle'."),
        ({"pace": -2.0}, "pace must be one of slow, fast or above 0, got -2.0."),
        ({"pace": True}, "pace must be one of slow, fast or above 0, got True."),
    ],
)
def test_a_value_beyond_its_limits_is_refused_in_one_sentence(given, sentence):
    with pytest.raises(FieldError) as refusal:
        Walk("home", **given)
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
