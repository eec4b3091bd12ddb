"""The soundness campaign in its short form; `python benchmarks/soundness.py --cases 20000` is the long one."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.slow
def test_no_violation_in_a_short_campaign():
    command = [sys.executable, "benchmarks/soundness.py", "--cases", "600", "--first-seed", "100000"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "600 cases, 0 violations" in done.stdout
