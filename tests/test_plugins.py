"""Installed packages add attacks, bounds and models: the examples of CONTRIBUTING.md, run from the command line."""

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from robust_attn import plugins as module
from robust_attn.bounds import registry
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.config.choices import choices
from robust_attn.config.settings import settings_from
from robust_attn.models.catalog import ModelSpec, spec_of
from robust_attn.plugins import plugins
from robust_attn.types import UserError
from tests.cases import Case, generator, random_layer, random_measure
from tests.composed import composed
from tests.test_cli import ENVIRONMENT, ROOT

GUIDE = (ROOT / "CONTRIBUTING.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
ENTRIES = {
    group.removeprefix("robust_attn."): entries
    for block in re.findall(r"```toml\n(.*?)```", GUIDE, re.DOTALL)
    for group, entries in tomllib.loads(block)["project"]["entry-points"].items()
}


def install(folder: Path, source: str, entries: dict[str, dict[str, str]]) -> Path:
    """A package as pip would leave it: a module, and metadata with entry points."""
    metadata = folder / "our_package-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "our_package.py").write_text(source)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: our_package\nVersion: 1.0\n")
    groups = [
        "\n".join([f"[robust_attn.{group}]", *(f"{name} = {place}" for name, place in named.items())])
        for group, named in entries.items()
    ]
    (metadata / "entry_points.txt").write_text("\n\n".join(groups))
    return folder


def command(site: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join((str(ROOT), str(site)))
    return subprocess.run(
        [sys.executable, "-m", "robust_attn", *arguments], cwd=site, env={**ENVIRONMENT, "PYTHONPATH": path},
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def declared(monkeypatch, group: str, **places: str) -> None:
    """As if a package had these entry points in one group, and nobody any others."""
    found = tuple(EntryPoint(name, place, f"robust_attn.{group}") for name, place in places.items())
    monkeypatch.setattr(module, "entries", lambda asked: found if asked == group else ())


def test_the_examples_of_the_guide_run_from_the_command_line(tmp_path):
    site = install(tmp_path / "site", "\n\n".join(EXAMPLES), ENTRIES)
    done = command(
        site, "model=small_bert", "attack=jitter", "attack.scale=0.25", "tokens=5", "samples=1", "tracker=none",
        f"hydra.run.dir={tmp_path / 'run'}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (record,) = [json.loads(line) for line in (tmp_path / "run" / "records.jsonl").read_text().splitlines()]
    assert (record["attack"], record["model"]) == ("jitter", "small_bert")
    assert record["observed"]["input_change"] == pytest.approx(0.25 * 0.01)
    (bound,) = [bound for bound in record["bounds"] if bound["name"].startswith(registry.FOREIGN)]
    assert bound["name"] == "foreign.diameter"
    assert bound["applies"]
    assert bound["output_change"] > record["observed"]["output_change"]


@pytest.mark.slow
def test_a_foreign_choice_is_checked_listed_and_completed_as_ours(tmp_path):
    site = install(tmp_path / "site", "\n\n".join(EXAMPLES), ENTRIES)
    wrong = command(site, "model=toy", "attack=jitter", "attack.scale=2", "tracker=none")
    assert wrong.returncode == 2
    assert "robust_attn: attack.scale must be above 0 and at most 1, got 2.0." in wrong.stderr
    listed = command(site, "--help").stdout
    assert "  attack=jitter " in listed
    assert "    attack.scale=0.5 " in listed
    assert "  model=small_bert " in listed


def test_a_package_that_cannot_be_loaded_is_one_sentence_when_chosen(tmp_path):
    site = install(
        tmp_path / "site", "raise OSError('no such\\nlibrary')", {"attacks": {"jitter": "our_package:Jitter"}}
    )
    done = command(site, "attack=jitter", "model=toy", "tracker=none")
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line]
    assert line == (
        "robust_attn: The attack 'jitter' of the package our_package cannot be used: OSError: no such library."
    )


def test_and_a_warning_when_not(monkeypatch):
    declared(monkeypatch, "attacks", jitter="no_such_module:Jitter")
    with pytest.warns(
        UserWarning, match="The attack 'jitter' of an unnamed package cannot be used: ModuleNotFoundError"
    ):
        assert settings_from(composed()).attack.name == "move"
    with pytest.raises(UserError, match="cannot be used: ModuleNotFoundError"):
        settings_from(composed("attack=jitter"))


def test_a_name_that_is_taken_is_refused(monkeypatch):
    declared(monkeypatch, "attacks", move="tests.test_plugins:ModelSpec")
    assert choices("attack")["move"].__module__ == "robust_attn.attacks.settings"
    with pytest.warns(UserWarning, match="The attack 'move' of an unnamed package is not used: the name is taken"):
        settings_from(composed())


@pytest.mark.parametrize("place", ["tests.test_plugins:ROOT", "robust_attn.attacks.settings:MoveSettings"])
def test_something_else_than_a_choice_of_that_name_is_refused(place, monkeypatch):
    declared(monkeypatch, "attacks", jitter=place)
    with pytest.raises(UserError, match="cannot be used: expected a class derived from Settings with a name"):
        choices("attack")["jitter"]()


def test_models_of_packages_are_in_the_catalog(monkeypatch):
    declared(monkeypatch, "models", spare="tests.test_plugins:SPARE", other="tests.test_plugins:SPARE")
    assert spec_of("spare") is SPARE
    assert settings_from_quietly("model=spare").data.name == "digits"
    with pytest.raises(UserError, match=r"there is no model called 'other'; known models: bert, .*, spare"):
        spec_of("other")


def settings_from_quietly(*overrides: str):
    with pytest.warns(UserWarning, match="expected a ModelSpec"):
        return settings_from(composed(*overrides))


def test_a_bound_that_cannot_be_loaded_is_left_out_with_a_warning(monkeypatch):
    declared(monkeypatch, "bounds", broken="no_such_module:bound", odd="tests.test_plugins:odd_bound")
    registry.foreign_bounds.cache_clear()
    try:
        with pytest.warns(UserWarning, match="The bound 'broken'"):
            assert len(registry.foreign_bounds()) == 1
        layer, measure = random_layer(Case(), generator(0)), random_measure(Case(), generator(1)).sample(0)
        with pytest.raises(UserError, match="The bound 'odd' of an installed package gave 3; expected a Bound"):
            certify(layer, measure, Wasserstein(0.01), deterministic=True)
    finally:
        registry.foreign_bounds.cache_clear()


def odd_bound(_: object) -> int:
    return 3


def test_nothing_is_installed_here():
    for group in ("attacks", "bounds", "models", "tasks"):
        assert plugins(group, callable, "anything").found == {}


SPARE = ModelSpec("spare", "vit", sizes={}, data="digits")
