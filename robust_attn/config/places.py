"""Where Hydra puts a run or a sweep: names by time that nobody else has, names of jobs by their settings."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from robust_attn.config.choices import choices
from robust_attn.config.grammar import quoted
from robust_attn.config.request import SWEEP_FILE
from robust_attn.runs.folder import new_folder
from robust_attn.runs.sweep.job import SETTINGS, settings_folder
from robust_attn.tasks.task import Task


def settings_hash(settings: object) -> str:
    """Eight digits, the same for the same nested plain values in any order and on every machine."""
    text = json.dumps(settings, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def hash_of(config: DictConfig) -> str:
    """The hash of the resolved settings, all that is not Hydra's own; of wrong ones as they are written."""
    settings = OmegaConf.masked_copy(config, [str(name) for name in config if name != "hydra"])
    try:
        return settings_hash(OmegaConf.to_container(settings, resolve=True))
    except OmegaConfBaseException:  # the job will say what is wrong
        return settings_hash(OmegaConf.to_container(settings, resolve=False))


def hash_at(folder: Path) -> str | None:
    """The same of the settings that were written down in a run folder; None where there are none to be read."""
    try:
        config = OmegaConf.load(folder / SETTINGS / "config.yaml")
    except Exception:  # no file, or no YAML: its parser has errors of many kinds
        return None
    return hash_of(config) if isinstance(config, DictConfig) else None


def run_name(task: str, attack: str, model: str) -> str:
    """What the task calls a run; one that does not exist is said to be wrong later."""
    kind = choices("task").get(task)
    return kind.folder_name(attack, model) if kind is not None and issubclass(kind, Task) else task


# When this module is imported, because a job in another process imports nothing else before its folder gets its name.
OmegaConf.register_new_resolver("run_name", run_name, replace=True)
OmegaConf.register_new_resolver("settings_hash", lambda *, _root_: hash_of(_root_), replace=True)
OmegaConf.register_new_resolver("settings_folder", settings_folder, replace=True)


@dataclass(frozen=True)
class Plan:
    """The settings that a sweep goes through, and the number of its jobs; None where the sweeper finds out itself."""

    names: tuple[str, ...]
    jobs: int | None

    @classmethod
    def of(cls, hydra: DictConfig) -> Plan:
        """As Hydra's own sweeper reads what was typed; it alone can count what glob(...) stands for."""
        params = [f"{name}={value}" for name, value in (hydra.sweeper.get("params") or {}).items()]
        parsed = OverridesParser.create().parse_overrides([*params, *hydra.overrides.task])
        names, jobs = tuple(each.get_key_element() for each in parsed if each.is_sweep_override()), None
        with contextlib.suppress(HydraException):
            jobs = len(BasicSweeper.split_arguments(parsed, None)[0]) if is_basic(hydra.sweeper) else None
        return cls(names, jobs)

    def words(self, overrides: Sequence[str]) -> str:
        """Of what was typed for a job, the settings that differ between jobs; all of them if none does."""
        return " ".join([each for each in overrides if each.partition("=")[0] in self.names] or overrides)

    def line(self, number: int, overrides: Sequence[str]) -> str:
        """`job 3 of 8: attack=move tokens=16` for job number 2."""
        return f"job {number + 1}{f' of {self.jobs}' if self.jobs else ''}: {self.words(overrides)}"


def is_basic(sweeper: DictConfig) -> bool:
    """Whether every combination is tried, so that nobody asks how a job went."""
    return str(sweeper._target_).endswith("BasicSweeper")


def is_alone(launcher: DictConfig) -> bool:
    """Whether the jobs of a sweep follow one another in one process, so that each has the terminal to itself."""
    return str(launcher._target_).endswith("BasicLauncher")


class Places(Callback):
    """Finds, in the process that was typed, where a run or a sweep goes, and notes where a sweep went.

    A folder that is named by the time belongs to this run alone, though another began in the same second; one that
    was typed is taken as it is. The jobs of a sweep, which may run in other processes, are told by an override.
    Hydra takes this object along to them.
    """

    sweeps: ClassVar[list[tuple[Path, Plan]]] = []
    begun: ClassVar[bool] = False

    def __init__(self) -> None:
        self.plan: Plan | None = None

    @classmethod
    def clear(cls) -> None:
        """As before any run."""
        cls.sweeps, cls.begun = [], False

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """What cannot be made here Hydra cannot make either, and its error is the one that is told."""
        with contextlib.suppress(OSError, OmegaConfBaseException):
            if _named_by_time(config.hydra.run):
                _place_at(config.hydra.run, new_folder(Path(config.hydra.run.dir)))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """The folder is known once the configuration is composed; whichever sweeper it is, Hydra's file marks it."""
        with contextlib.suppress(OSError):
            if _named_by_time(config.hydra.sweep):
                _place_at(config.hydra.sweep, new_folder(Path(config.hydra.sweep.dir)))
                with read_write(config.hydra.overrides):
                    config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted(config.hydra.sweep.dir)}")
        folder = Path(config.hydra.sweep.dir).absolute()
        self.plan = Plan.of(config.hydra)
        self.sweeps.append((folder, self.plan))
        folder.mkdir(parents=True, exist_ok=True)
        OmegaConf.save(config, folder / SWEEP_FILE)

    def on_job_start(self, config: DictConfig, **_: Any) -> None:
        """In the process of the job."""
        type(self).begun = True
        if config.hydra.mode is RunMode.MULTIRUN and self.plan is not None:
            print(self.plan.line(config.hydra.job.num, config.hydra.overrides.task), flush=True)


def _named_by_time(place: DictConfig) -> bool:
    """Whether the folder's name is made of the time, by Hydra's `now`."""
    unresolved = OmegaConf.to_container(place, resolve=False)
    return isinstance(unresolved, dict) and "${now:" in str(unresolved["dir"])


def _place_at(place: DictConfig, folder: Path) -> None:
    with read_write(place), open_dict(place):
        place.dir = str(folder)
