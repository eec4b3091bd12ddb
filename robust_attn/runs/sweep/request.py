"""What the command line asks of a sweep as a whole. It is taken out before Hydra sees it: no job depends on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robust_attn.config.grammar import quoted
from robust_attn.runs.sweep.objective import OBJECTIVES
from robust_attn.types import UserError

PREFIX = "sweep."
SUBDIR = "hydra.sweep.subdir="
DEFAULT_SUBDIR = "${hydra.job.num}-${run_name:${task.name},${attack.name},${model.name}}"
SWEEP_MARK = ".sweep"
"""A file by which the folder of a sweep is known, whichever sweeper made it."""
RESUMED = ".resumed"
"""A folder in that of a sweep with one for every time that somebody went on with it, so that each has its own name."""
VERBOSE = ("-v", "--verbose")
MULTIRUN = ("-m", "--multirun", "hydra.mode=MULTIRUN")


@dataclass(frozen=True)
class SweepRequest:
    """`resume` is the folder of a sweep to go on with; `objective` is the number that an optimising sweeper gets."""

    resume: Path | None = None
    objective: str = "gain"


def sweep_request(arguments: Sequence[str]) -> tuple[SweepRequest, list[str]]:
    """The request, and the arguments that are left for Hydra."""
    given = dict(_pair(item) for item in arguments if item.startswith(PREFIX))
    rest = [item for item in arguments if not item.startswith(PREFIX)]
    unknown = sorted(set(given) - {"resume", "objective"})
    if unknown:
        raise UserError(f"There is no setting {PREFIX + unknown[0]!r}; there are: sweep.resume, sweep.objective.")
    objective = given.get("objective", "gain")
    if objective not in OBJECTIVES:
        raise UserError(f"sweep.objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}.")
    if "resume" not in given:
        return SweepRequest(None, objective), rest
    return SweepRequest(_existing(given["resume"], rest), objective), rest


def resumed_arguments(arguments: Sequence[str], folder: Path, stamp: str) -> list[str]:
    """Arguments under which the sweep goes on in `folder`, each job in a new folder that no earlier job has."""
    subdirs = [item.removeprefix(SUBDIR) for item in arguments if item.startswith(SUBDIR)]
    subdir = _unquoted(subdirs[-1]) if subdirs else DEFAULT_SUBDIR
    kept = [item for item in arguments if not item.startswith((SUBDIR, "hydra.sweep.dir="))]
    return [*kept, f"hydra.sweep.dir={quoted(str(folder))}", f"{SUBDIR}{quoted(f'resumed-{stamp}-{subdir}')}"]


def with_hydra_verbosity(arguments: Sequence[str]) -> list[str]:
    """`-v` in Hydra's own words, which reach the jobs of a sweep wherever they run; only this package speaks up."""
    rest = [item for item in arguments if item not in VERBOSE]
    return rest if len(rest) == len(arguments) else [*rest, "hydra.verbose=[robust_attn]"]


def sweep_name(folder: Path) -> str:
    """What runs of the sweep in `folder` have in common, with no path of the machine in it: day and time if it can."""
    here = Path.cwd()
    parts = folder.absolute().relative_to(here).parts if folder.absolute().is_relative_to(here) else (folder.name,)
    return "/".join(parts[1:] if len(parts) > 1 and parts[0] == "runs" else parts)


def _existing(value: str, arguments: Sequence[str]) -> Path:
    folder = Path(value).expanduser().absolute()
    if not any(item in MULTIRUN for item in arguments):
        raise UserError("sweep.resume goes on with a sweep, so it needs -m and the settings of that sweep.")
    if not folder.is_dir():
        raise UserError(f"sweep.resume: there is no folder {value}; expected the folder of an interrupted sweep.")
    if not value or not (folder / SWEEP_MARK).is_file():
        raise UserError(f"sweep.resume: {value or 'nothing'} is not the folder of a sweep: there is no {SWEEP_MARK}.")
    return folder


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.removeprefix(PREFIX).partition("=")
    return key, _unquoted(value)


def _unquoted(text: str) -> str:
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"" else text
