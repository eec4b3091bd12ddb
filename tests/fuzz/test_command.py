"""Whole runs with odd settings: a result, or one sentence and status 2; what is not complete does not look complete."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from robust_attn.types import ExitStatus
from tests.faults.command import command

BASE = {"model": "toy", "layers": "[0]", "tokens": "3", "samples": "1", "attack": "random", "tracker": "none"}
KEYS = ("tokens", "samples", "layers", "seed", "budget.radius", "budget.support", "attack.trials", "data")
VALUES = ("0", "1", "-1", "2", "1e-300", "1e300", "nan", "null", "[0,1]", "[9]", "tokens", "sphere", "é\u202e")
ODD = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES), min_size=1, max_size=2)


def ends_well_or_says_why(odd, monkeypatch, capsys) -> None:
    with tempfile.TemporaryDirectory() as place:
        arguments = [f"{key}={value}" for key, value in (BASE | odd).items()]
        status, sentences = command(monkeypatch, capsys, Path(place), *arguments, "hydra.run.dir=run")
        monkeypatch.undo()  # leave the folder before it goes
        summary = Path(place, "run", "summary.json")
        ended = json.loads(summary.read_text())["status"] if summary.exists() else None
    if status is ExitStatus.OK:
        assert ended == "complete"
        return
    assert len(sentences) == 1
    assert status is ExitStatus.WRONG_CONFIGURATION or "finite" in sentences[0]
    assert status is ExitStatus.FAILED or ended != "complete"


@settings(max_examples=4, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(odd=ODD)
def test_a_run_ends_well_or_says_why(odd, monkeypatch, capsys):
    ends_well_or_says_why(odd, monkeypatch, capsys)


@pytest.mark.slow
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("key", KEYS)
def test_every_odd_value_of_every_setting(key, value, monkeypatch, capsys):
    ends_well_or_says_why({key: value}, monkeypatch, capsys)
