"""Configurations composed as the command line composes them, and runs made from them."""

import json
from pathlib import Path
from typing import Any

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig
from rich.console import Console

from robust_attn.cli import configuration_folder
from robust_attn.config.schema import register_schemas
from robust_attn.config.settings import plain, settings_from
from robust_attn.types import Outcome

QUICK = ("tracker=none", "samples=2", "tokens=6", "certificate.lanczos_steps=40")


def composed(*overrides: str, return_hydra_config: bool = False) -> DictConfig:
    register_schemas()
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(configuration_folder()), version_base="1.3"):
        return compose("config", overrides=list(overrides), return_hydra_config=return_hydra_config)


def run(folder: Path, *overrides: str) -> tuple[Outcome, list[dict[str, Any]], dict[str, Any], str]:
    """Execute a run in `folder`: its outcome, records, summary, and what the terminal showed."""
    from robust_attn.run import execute

    config = composed(*QUICK, *overrides)
    console = Console(record=True, width=200, quiet=False, file=(folder.parent / f"{folder.name}.txt").open("w"))
    settings = settings_from(config)
    outcome = execute(settings, plain(config), folder, console)
    records = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert {record["kind"] for record in records} <= set(settings.task.kinds)
    return outcome, records, json.loads((folder / "summary.json").read_text()), console.export_text()
