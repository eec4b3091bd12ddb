"""What --help prints: everything that can be set, at once, in a hundred columns."""

import subprocess
import sys

import pytest

from robust_attn.config.choices import choices
from robust_attn.config.folder import experiments
from robust_attn.config.help import WIDTH, default_text, help_text, typed
from robust_attn.config.run import GROUPS, RunSettings
from robust_attn.settings import limits_of, settings_of
from robust_attn.work import CertificateSettings
from tests.test_cli import ENVIRONMENT, ROOT

TEXT = help_text()
WORDS = " ".join(TEXT.split())
CHOICES = [(group, name) for group in GROUPS for name in choices(group)]


@pytest.mark.parametrize(("group", "name"), CHOICES, ids=str)
def test_every_choice_is_listed_with_all_that_it_can_be_told(group, name):
    assert f"  {group}={name} " in TEXT
    for entry in settings_of(choices(group)[name]):
        assert f"{group}.{entry.name}={default_text(entry)}" in TEXT
        assert limits_of(entry).help in WORDS


def test_what_all_runs_share_is_listed():
    for entry in settings_of(RunSettings):
        assert limits_of(entry).help in WORDS
        assert entry.name in (*GROUPS, "certificate") or f"  {entry.name}={default_text(entry)} " in TEXT
    for entry in settings_of(CertificateSettings):
        assert f"  certificate.{entry.name}={default_text(entry)}" in TEXT
    assert all(name in WORDS for name in experiments() if not name.endswith("_quick"))


def test_lines_are_short_and_limits_are_told():
    assert max(map(len, TEXT.splitlines())) <= WIDTH
    assert "tokens per sample (at least 1)" in WORDS
    assert "(one of auto, tokens, normalization or above 0)" in WORDS


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (1, "1"), (True, "true"), (None, "null"), (((1.0, 0.5), ()), "[[1,0.5],[]]"), (1e-9, "1e-09")],
)
def test_defaults_are_shown_as_they_would_be_typed(value, text):
    assert typed(value) == text


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_command_prints_it_without_anything_slow(flag, tmp_path):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "robust_attn", flag, "attack=mass_split"], cwd=tmp_path,
        env={**ENVIRONMENT, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout == TEXT + "\n"
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "robust_attn.config.help" in imported
    assert not imported & {"torch", "transformers", "wandb", "matplotlib", "hydra.core.plugins_loader", "scipy"}


def test_a_reader_may_have_seen_enough():
    """As `--help | head -1`: nothing is said of a pipe that closed."""
    piped = f"{sys.executable} -m robust_attn --help | head -1"
    done = subprocess.run(["sh", "-c", piped], cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    assert done.stdout.startswith("robust_attn attacks")
    assert done.stderr == ""
