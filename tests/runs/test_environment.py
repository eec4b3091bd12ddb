import getpass
import json
import os
from pathlib import Path

from robust_attn.runs.environment import commit, environment, peak_memory_gb


def test_what_another_machine_needs():
    facts = environment(weights="random:0", sha256={"a": "b"}, note=None, dtype="float64")
    assert facts["weights"] == "random:0"
    assert facts["weights_sha256"] == {"a": "b"}
    assert facts["versions"]["torch"]
    assert facts["threads"] == 1
    json.dumps(facts, allow_nan=False)


def test_no_home_paths_or_secrets(monkeypatch):
    monkeypatch.setenv("WANDB_API_KEY", "very-secret-key")
    text = json.dumps(environment(weights="w", sha256={}, note=None, dtype="float64"))
    assert "very-secret-key" not in text
    assert str(Path.home()) + os.sep not in text
    assert len(getpass.getuser()) < 4 or getpass.getuser() not in text


def test_commit_is_a_hash_and_none_outside_a_checkout():
    found = commit()
    assert (found is not None) == (Path(__file__).parents[2] / ".git").exists()
    assert found is None or len(found.removesuffix("-dirty")) == 40


def test_peak_memory_is_that_of_a_process_with_torch():
    assert 0.05 < peak_memory_gb() < 100
