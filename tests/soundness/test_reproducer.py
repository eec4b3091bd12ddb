import json
from dataclasses import replace

import pytest

from robust_attn.soundness.case import Case
from robust_attn.soundness.comparison import Checked, Comparison
from robust_attn.soundness.reproducer import reproducer, saved_case, shrunk
from robust_attn.soundness.usual import usual
from robust_attn.types import UserError

EXCEEDED = Comparison("planted", 2, 2.0, 0.0, 1.0)
LARGE = replace(usual(0), samples=(0, 1, 2, 3), tokens=11, width=5, groups=3, sharing=2, out=4, tolerance=None)


def violated_if(rule):
    return lambda case: Checked((EXCEEDED,) if rule(case) else ())


def test_what_does_not_matter_is_left_out():
    smallest, shown = shrunk(LARGE, EXCEEDED, check=violated_if(lambda case: case.tokens >= 3 and case.groups >= 2))
    assert (smallest.tokens, smallest.groups) == (3, 2)
    assert (smallest.width, smallest.sharing, smallest.out, smallest.head_width) == (1, 1, 1, 2)
    assert smallest.samples == (2,)
    assert (smallest.mask, smallest.rotary, smallest.weights, smallest.attack) == ("none", False, "normal", "linear")
    assert (smallest.radius, smallest.token_size, smallest.logit_size) == (1.0, 1.0, 1.0)
    assert shown == EXCEEDED


def test_a_case_that_is_violated_no_more_when_simpler_stays():
    assert shrunk(LARGE, EXCEEDED, check=violated_if(lambda case: case == LARGE)) == (LARGE, EXCEEDED)


def test_another_bound_does_not_count():
    other = Checked((replace(EXCEEDED, bound="other"),))
    assert shrunk(LARGE, EXCEEDED, check=lambda case: other)[0] == LARGE  # noqa: ARG005


def test_a_reproducer_is_read_back(tmp_path):
    path = tmp_path / "found.json"
    path.write_text(json.dumps(reproducer(Case(5), EXCEEDED, drawn_from=LARGE)))
    assert saved_case(path) == Case(5)


def test_a_reproducer_saved_before_there_were_other_functions_is_read(tmp_path):
    path = tmp_path / "old.json"
    old = {"seed": 5, "tokens": 3, "tolerance": 0.5, "samples": [0], "stored": "float32"}
    path.write_text(json.dumps({"schema": 1, "case": old, "bound": "certified_radius"}))
    assert saved_case(path) == Case(5, tokens=3, tolerance=0.5, stored="float32")
    assert saved_case(path).called == "certified_radii"


def test_new_kinds_are_made_simpler_too():
    far = replace(LARGE, function="certify", scale="negative", support="number", support_times=31.0, distance=500.0)
    smallest, _ = shrunk(far, EXCEEDED, check=violated_if(lambda case: case.support == "number"))
    assert (smallest.scale, smallest.support_times, smallest.distance) == ("usual", 1.0, 1.0)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"case": 3}', '{"case": {"seed": 1, "x": 2}}', "{", "\x00"])
def test_what_is_no_reproducer_is_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    with pytest.raises(UserError):
        saved_case(path)
    with pytest.raises(UserError, match="no reproducer"):
        saved_case(tmp_path / "missing.json")
