"""The command line inside this process: its exit status and what it says on stderr."""

import sys
from pathlib import Path

import pytest

from robust_attn.cli import run_command_line
from robust_attn.types import ExitStatus

TINY = ("model=toy", "layers=[0]", "tokens=4", "samples=2", "attack=random", "tracker=none")


def command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], folder: Path, *arguments: str
) -> tuple[ExitStatus, list[str]]:
    """Run it in `folder`; the sentences are the lines that begin with the program's name."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "argv", ["robust_attn", *arguments])
    capsys.readouterr()
    status = run_command_line()
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err + shown.out
    return status, [line for line in shown.err.splitlines() if line.startswith("robust_attn:")]
