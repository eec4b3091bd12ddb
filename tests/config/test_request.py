"""What the command line asks of a sweep as a whole."""

import pytest

from robust_attn.config.request import SWEEP_FILE, Request, request_of
from robust_attn.types import UserError


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["sweep.resume=nowhere", "-m"], ["no folder nowhere"]),
        (["sweep.resume=."], ["needs -m"]),
        (["sweep.resume=", "-m"], ["nothing is not the folder of a sweep"]),
        (["sweep.resume=/", "-m"], ["/ is not the folder of a sweep"]),
        (["sweep.resumee=."], ["no setting 'sweep.resumee'", "sweep.resume"]),
        (["sweep.objective=speed"], ["gain, tightness", "speed"]),
    ],
)
def test_a_wrong_request_is_one_sentence(arguments, words):
    with pytest.raises(UserError) as caught:
        request_of(arguments)
    assert all(word in str(caught.value) for word in words)


def test_to_resume_is_to_sweep_into_the_same_folder(tmp_path):
    sweep = tmp_path / "it's"
    sweep.mkdir()
    (sweep / SWEEP_FILE).touch()
    given = ["-m", "hydra.sweep.dir=elsewhere", f"sweep.resume={sweep}", "tokens=4,8", "sweep.objective=tightness"]
    place = f"hydra.sweep.dir='{tmp_path}/it\\'s'"
    assert request_of(given) == Request(["-m", place, "tokens=4,8"], "tightness")
    assert request_of(["-m", f"sweep.resume='{sweep}'"]).arguments == ["-m", place]
    assert request_of(["tokens=4,8", f"sweep.resume={sweep}", "-m"]).arguments == [place, "tokens=4,8", "-m"]


def test_v_is_said_in_the_words_of_hydra():
    assert request_of(["-m", "-v", "tokens=4"]).arguments == ["-m", "hydra.verbose=[robust_attn]", "tokens=4"]
    assert request_of(["--verbose"]).arguments == ["hydra.verbose=[robust_attn]"]
    assert request_of(["-m", "tokens=4"]) == Request(["-m", "tokens=4"], "gain")


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("fail_if=certified_radius<0.001", "fail_if='certified_radius<0.001'"),
        ("+fail_if=verdict=VACUOUS", "+fail_if='verdict=VACUOUS'"),
        ("fail_if=[a<1, b.c>=2]", "fail_if=['a<1','b.c>=2']"),
        ("fail_if=[]", "fail_if=[]"),
        ("fail_if=null", "fail_if=null"),
        ("fail_if='a<1'", "fail_if='a<1'"),
        ('fail_if=["a<1",b<2]', 'fail_if=["a<1",b<2]'),
        ("fail_ifs=a<1", "fail_ifs=a<1"),
    ],
)
def test_conditions_are_put_into_the_quotes_that_hydra_wants(typed, read):
    assert request_of([typed]).arguments == [read]
