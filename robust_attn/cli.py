"""The command line: Hydra composes the configuration, one sentence says what is wrong. Torch is imported late."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException
from omegaconf import DictConfig
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from robust_attn.config import plain, register_schemas, settings_from
from robust_attn.types import ExitStatus, Outcome, UserError

TRACEBACK_VARIABLE = "ROBUST_ATTN_TRACEBACK"


def configuration_folder() -> Path:
    """conf/ inside the installed package, or at the root of the source tree."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def main() -> None:
    """Run what the command line says and leave with the contract's exit status."""
    sys.exit(int(run_command_line()))


def run_command_line() -> ExitStatus:
    """Compose the configuration, run the job or the sweep, and turn every failure into one sentence and a status."""
    register_schemas()
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    outcomes: list[Outcome] = []

    def job(config: DictConfig) -> None:
        outcomes.append(_run_job(config))

    try:
        hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(job)()
    except (HydraException, OmegaConfBaseException, UserError) as error:
        return _refuse(_sentence(error))
    except KeyboardInterrupt:
        return _fail("interrupted")
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return _fail(f"{type(error).__name__}: {error} (set {TRACEBACK_VARIABLE}=1 for the traceback)")
    for outcome in outcomes:
        if outcome.message:
            print(f"robust_attn: {outcome.message}", file=sys.stderr)
    return _worst([outcome.status for outcome in outcomes])


def _run_job(config: DictConfig) -> Outcome:
    """Validate before anything slow is imported; a wrong setting is an outcome, so that a sweep goes on without it."""
    try:
        settings = settings_from(config)
    except (OmegaConfBaseException, UserError) as error:
        return Outcome(ExitStatus.WRONG_CONFIGURATION, _sentence(error))
    from robust_attn.run import execute
    from robust_attn.terminal import console

    return execute(settings, plain(config), Path(HydraConfig.get().runtime.output_dir), console())


def _worst(statuses: list[ExitStatus]) -> ExitStatus:
    """A violated certificate comes before a failure, a failure before a wrong configuration."""
    order = (ExitStatus.VIOLATED, ExitStatus.FAILED, ExitStatus.WRONG_CONFIGURATION)
    return next((status for status in order if status in statuses), ExitStatus.OK)


def _refuse(sentence: str) -> ExitStatus:
    print(f"robust_attn: {sentence}", file=sys.stderr)
    return ExitStatus.WRONG_CONFIGURATION


def _fail(sentence: str) -> ExitStatus:
    print(f"robust_attn: {sentence}", file=sys.stderr)
    return ExitStatus.FAILED


def _sentence(error: BaseException) -> str:
    """What Hydra, OmegaConf or this package has to say, as one sentence without their internals."""
    text = " ".join(str(error).split())
    missing = re.search(
        r"Could not find '([\w/]+)/([^']*)' Available options in '[^']*': (.*?) Config search path", text
    )
    if missing:
        group, name, known = missing.groups()
        return f"There is no {group} {name!r}; there are: {', '.join(known.split())}."
    unknown = re.search(r"Could not override '([^']*)'", text)
    if unknown:
        return f"There is no setting {unknown[1]!r}; python -m robust_attn --cfg job lists them all."
    if isinstance(error, MissingMandatoryValue):
        return f"{error.full_key} must be given."
    parts = [text] + ([" ".join(str(error.__cause__).split())] if error.__cause__ is not None else [])
    return ": ".join(re.sub(r"\s*(full_key|object_type|reference_type)[:=].*", "", part) for part in parts)
