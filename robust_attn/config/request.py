"""What the command line asks of a sweep as a whole, and of Hydra in shorter words than its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from robust_attn.config.grammar import quoted
from robust_attn.runs.sweep.objective import OBJECTIVES
from robust_attn.types import UserError

PREFIX = "sweep."
KNOWN = ("resume", "objective", "jobs")
CONDITIONS = "fail_if"
PLACE = "hydra.sweep.dir="
SWEEP_FILE = "multirun.yaml"
"""A file of Hydra's by which the folder of a sweep is known."""
VERBOSE = ("-v", "--verbose")
MULTIRUN = ("-m", "--multirun", "hydra.mode=MULTIRUN")


@dataclass(frozen=True)
class Request:
    """`arguments` are for Hydra; `objective` is the number of a job that an optimising sweeper gets."""

    arguments: list[str]
    objective: str = "gain"


def request_of(arguments: Sequence[str]) -> Request:
    """`sweep.resume` points Hydra at the folder of a sweep, `sweep.jobs` makes jobs of layers and samples.

    `-v` has this package alone speak up, in jobs as well.
    """
    given = dict(_pair(item) for item in arguments if item.startswith(PREFIX))
    unknown = sorted(set(given) - set(KNOWN))
    if unknown:
        known = ", ".join(PREFIX + name for name in KNOWN)
        raise UserError(f"There is no setting {PREFIX + unknown[0]!r}; there are: {known}.")
    objective = given.get("objective", "gain")
    if objective not in OBJECTIVES:
        raise UserError(f"sweep.objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}.")
    more = ["hydra.verbose=[robust_attn]"] if set(VERBOSE) & set(arguments) else []
    rest = [_quoted(item) for item in arguments if not item.startswith(PREFIX) and item not in VERBOSE]
    if "jobs" in given:
        rest = _split(given["jobs"], rest)
    if "resume" in given:
        more.append(f"{PLACE}{quoted(str(_existing(given['resume'], rest)))}")
        rest = [item for item in rest if not item.startswith(PLACE)]
    return Request(_beside_overrides(rest, more), objective)


def _split(parts: str, arguments: list[str]) -> list[str]:
    """With layers and samples as jobs."""
    from robust_attn.config.split import as_jobs  # the tasks: only where they are asked about

    if not any(item in MULTIRUN for item in arguments):
        raise UserError("sweep.jobs makes jobs of a sweep, so it needs -m.")
    return as_jobs(parts.removeprefix("[").removesuffix("]").replace(" ", "").split(","), arguments)


def _quoted(item: str) -> str:
    """A condition in the quotes that Hydra's grammar wants around < and >, and that a shell takes away."""
    name, equals, value = item.partition("=")
    if name.lstrip("+") != CONDITIONS or not equals or not value or set(value) & set("'\"") or value == "null":
        return item
    if value.startswith("[") and value.endswith("]"):
        return f"{name}=[{','.join(quoted(one.strip()) for one in value[1:-1].split(',') if one.strip())}]"
    return f"{name}={quoted(value)}"


def _beside_overrides(arguments: list[str], more: list[str]) -> list[str]:
    """With `more` before the first override: argparse takes no overrides on both sides of an option such as -m."""
    overrides = [number for number, item in enumerate(arguments) if "=" in item and not item.startswith("-")]
    first = overrides[0] if overrides else len(arguments)
    return [*arguments[:first], *more, *arguments[first:]]


def _existing(value: str, arguments: Sequence[str]) -> Path:
    folder = Path(value).expanduser().absolute()
    if not any(item in MULTIRUN for item in arguments):
        raise UserError("sweep.resume continues a sweep, so it needs -m and the settings of that sweep.")
    if not folder.is_dir():
        raise UserError(f"sweep.resume: there is no folder {value}; expected the folder of an interrupted sweep.")
    if not value or not (folder / SWEEP_FILE).is_file():
        raise UserError(f"sweep.resume: {value or 'nothing'} is not the folder of a sweep: there is no {SWEEP_FILE}.")
    return folder


def _pair(item: str) -> tuple[str, str]:
    key, _, value = item.removeprefix(PREFIX).partition("=")
    quotes = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return key, value[1:-1] if quotes else value
