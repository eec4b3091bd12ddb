"""Completion of the command line by a shell, as docs/sweeps.md says."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_cli import ENVIRONMENT, ROOT, command

PROGRAM = Path(sys.executable).with_name("robust-attn")
SCRIPT = """
eval "$(robust-attn -sc install=bash)"
COMP_LINE="$1"; COMP_WORDS=($1); COMP_CWORD=$(( ${#COMP_WORDS[@]} - 1 )); COMP_POINT=${#1}
hydra_bash_completion
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("robust-attn model=mi", {"model=minilm"}),
        ("robust-attn attack=duplicate attack.re", {"attack.repeats="}),
    ],
)
def test_hydra_knows_how_the_line_goes_on(line, words, tmp_path, monkeypatch):
    monkeypatch.setitem(ENVIRONMENT, "COMP_LINE", line)
    done = command("-sc", "query=bash", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert set(done.stdout.split()) == words


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None or not PROGRAM.exists(), reason="needs bash and an installed package")
def test_a_real_bash_completes_the_installed_command(tmp_path):
    path = os.pathsep.join((str(PROGRAM.parent), os.environ["PATH"]))
    done = subprocess.run(
        ["bash", "-c", SCRIPT, "bash", "robust-attn -m model=toy task=ce"], cwd=tmp_path,
        text=True, capture_output=True,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT), "PATH": path}, timeout=120, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["task=certify"], done.stderr
