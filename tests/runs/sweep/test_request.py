"""What the command line asks of a sweep as a whole."""

import sys
from datetime import datetime
from pathlib import Path

import pytest

from robust_attn import cli
from robust_attn.runs.sweep.request import (
    SWEEP_MARK,
    SweepRequest,
    resumed_arguments,
    sweep_name,
    sweep_request,
    with_hydra_verbosity,
)
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
        sweep_request(arguments)
    assert all(word in str(caught.value) for word in words)


def test_the_request_leaves_the_command_line(tmp_path):
    (tmp_path / SWEEP_MARK).touch()
    request, rest = sweep_request(["-m", f"sweep.resume='{tmp_path}'", "tokens=4,8", "sweep.objective=tightness"])
    assert request == SweepRequest(tmp_path, "tightness")
    assert rest == ["-m", "tokens=4,8"]


def test_a_resumed_sweep_writes_into_its_folder_and_never_into_an_earlier_run():
    """Hydra writes .hydra before a job can look around, so job folders are new whatever names were asked for."""
    given = ["-m", "hydra.sweep.dir=elsewhere", "hydra.sweep.subdir='${tokens}'"]
    assert resumed_arguments(given, Path("/a/it's"), "S") == [
        "-m", r"hydra.sweep.dir='/a/it\'s'", "hydra.sweep.subdir='resumed-S-${tokens}'",
    ]  # fmt: skip


def test_two_that_go_on_with_a_sweep_in_the_same_second_have_folders_of_their_own(tmp_path, monkeypatch):
    class Noon(datetime):
        @classmethod
        def now(cls):
            return cls(2026, 1, 2, 12)

    monkeypatch.setattr(cli, "datetime", Noon)
    (tmp_path / SWEEP_MARK).touch()
    places = []
    for _ in range(2):
        monkeypatch.setattr(sys, "argv", ["robust_attn", "-m", f"sweep.resume={tmp_path}", "hydra.sweep.subdir=x"])
        cli._take_request()
        places.append(sys.argv[-1])
    assert places == ["hydra.sweep.subdir='resumed-0102-120000-x'", "hydra.sweep.subdir='resumed-0102-120000-2-x'"]


def test_v_is_said_in_the_words_of_hydra():
    assert with_hydra_verbosity(["-m", "-v", "tokens=4"]) == ["-m", "tokens=4", "hydra.verbose=[robust_attn]"]
    assert with_hydra_verbosity(["--verbose"]) == ["hydra.verbose=[robust_attn]"]
    assert with_hydra_verbosity(["-m", "tokens=4"]) == ["-m", "tokens=4"]


def test_a_sweep_is_named_without_the_paths_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sweep_name(Path("runs/2026-01-02/10-00-00-sweep")) == "2026-01-02/10-00-00-sweep"
    assert sweep_name(tmp_path / "demo") == "demo"
    assert sweep_name(Path("/home/somebody/demo")) == "demo"
