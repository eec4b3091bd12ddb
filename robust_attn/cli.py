"""The command line: Hydra composes the configuration, one sentence says what is wrong. Torch is imported late."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import signal
import sys
import uuid
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.errors import HydraException, OverrideParseException
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from omegaconf.errors import MissingMandatoryValue, OmegaConfBaseException

from robust_attn.background import in_background, sigterm_interrupts, somebody_works
from robust_attn.config import plain, register_schemas, settings_from
from robust_attn.config.folder import configuration_folder
from robust_attn.config.grammar import quoted, unreadable
from robust_attn.config.help import help_text
from robust_attn.run_folder import new_folder
from robust_attn.run_name import run_name
from robust_attn.sweep.objective import objective_of
from robust_attn.sweep.outcomes import collect_outcomes, leave_outcome
from robust_attn.sweep.request import (
    RESUMED,
    SWEEP_MARK,
    SweepRequest,
    resumed_arguments,
    sweep_name,
    sweep_request,
    with_hydra_verbosity,
)
from robust_attn.sweep.resume import (
    Earlier,
    begin,
    earlier_runs,
    lost_run,
    marked_under_way,
    set_aside,
    summary_of,
    vacate,
    withdraw,
)
from robust_attn.sweep.threads import threads_per_job
from robust_attn.types import ExitStatus, Outcome, UserError

TRACEBACK_VARIABLE = "ROBUST_ATTN_TRACEBACK"
# When this module is imported, because a job in another process imports nothing else before its folder gets its name.
OmegaConf.register_new_resolver("run_name", run_name, replace=True)


def main() -> None:
    """Run what the command line says and leave with the contract's exit status.

    A thread left behind in the middle of torch or wandb cannot be ended, and Python would wait for it or crash with
    it: the process then ends without Python's own closing. Everything of value was closed by then.
    """
    try:
        status = int(run_command_line())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    except KeyboardInterrupt:  # once more, while the end was being told
        status = int(_fail("interrupted"))
    if somebody_works():
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


class Places(Callback):
    """Finds, in the process that was typed, where a run or a sweep goes, and notes where a sweep went.

    A folder that is named by the time belongs to this run alone, though another began in the same second; one that
    was typed is taken as it is. The jobs of a sweep, which may run in other processes, are told by an override.
    """

    sweeps: ClassVar[list[Path]] = []

    def on_run_start(self, config: DictConfig, **_: Any) -> None:
        """What cannot be made here Hydra cannot make either, and its error is the one that is told."""
        with contextlib.suppress(OSError, OmegaConfBaseException):
            if _named_by_time(config.hydra.run):
                _place_at(config.hydra.run, new_folder(Path(config.hydra.run.dir)))

    def on_multirun_start(self, config: DictConfig, **_: Any) -> None:
        """The folder is known once the configuration is composed; it is marked as that of a sweep."""
        with contextlib.suppress(OSError):
            if _named_by_time(config.hydra.sweep):
                _place_at(config.hydra.sweep, new_folder(Path(config.hydra.sweep.dir)))
                with read_write(config.hydra.overrides):
                    config.hydra.overrides.hydra.append(f"hydra.sweep.dir={quoted(config.hydra.sweep.dir)}")
        folder = Path(config.hydra.sweep.dir).absolute()
        self.sweeps.append(folder)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / SWEEP_MARK).touch()


def _named_by_time(place: DictConfig) -> bool:
    """Whether the folder's name is made of the time, by Hydra's `now`."""
    unresolved = OmegaConf.to_container(place, resolve=False)
    return isinstance(unresolved, dict) and "${now:" in str(unresolved["dir"])


def _place_at(place: DictConfig, folder: Path) -> None:
    with read_write(place), open_dict(place):
        place.dir = str(folder)


def run_command_line() -> ExitStatus:
    """Compose the configuration, run the job or the sweep, and turn every failure into one sentence and a status."""
    if {"--help", "-h"} & set(sys.argv[1:]):  # Hydra's own would take seconds to list the groups
        print(help_text())
        return ExitStatus.OK
    register_schemas()
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    outcomes: list[Outcome] = []
    begun: list[DictConfig] = []
    token = uuid.uuid4().hex
    Places.sweeps.clear()
    try:
        request = _take_request()

        def job(config: DictConfig) -> float | None:
            begun.append(config)
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                return _run_sweep_job(config, request, token)
            outcomes.append(_run_job(config))
            return None

        with sigterm_interrupts():
            hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(job)()
    except (KeyboardInterrupt, Exception) as error:
        return _told(error, begun=bool(begun))
    finally:
        outcomes += [outcome for folder in Places.sweeps for outcome in collect_outcomes(folder, token)]
        for outcome in outcomes:
            if outcome.message:
                print(f"robust_attn: {outcome.message}", file=sys.stderr)
    return _worst([outcome.status for outcome in outcomes])


def _told(error: BaseException, *, begun: bool) -> ExitStatus:
    """The sentence and the status of what ended everything; `begun` says whether a job had begun by then."""
    if _was_interrupted(error):
        return _fail("interrupted" + _goes_on())
    if isinstance(error, HydraException | OmegaConfBaseException | UserError):
        return _refuse(_sentence(error))
    if os.environ.get(TRACEBACK_VARIABLE):
        raise error
    if isinstance(error, OSError) and error.filename and not begun:  # Hydra makes the folder before the job
        return _refuse(f"The run folder {error.filename} cannot be written: {error.strerror}.")
    if not begun and not Places.sweeps:  # Hydra could not make sense of what was typed
        return _refuse(_failure(error))
    return _fail(_failure(error) + _goes_on())


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether this is Ctrl-C or what became of it: raised while OmegaConf tidies up, it comes out as another error.

    A disk that fails while an interrupted run is closed is a matter of its own, and told as such.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt | OSError):
        error = error.__context__
    return isinstance(error, KeyboardInterrupt)


def _goes_on() -> str:
    """How to go on with a sweep that ended early; nothing for a single run."""
    return "".join(f"; sweep.resume={folder} goes on with what is missing" for folder in Places.sweeps[-1:])


def _take_request() -> SweepRequest:
    """What is asked of a sweep as a whole leaves the command line; to resume, the rest is pointed at its folder."""
    request, arguments = sweep_request(with_hydra_verbosity(sys.argv[1:]))
    if request.resume is not None:
        stamp = new_folder(request.resume / RESUMED / f"{datetime.now():%m%d-%H%M%S}").name
        arguments = resumed_arguments(arguments, request.resume, stamp)
    sys.argv[1:] = arguments
    return request


def _run_sweep_job(config: DictConfig, request: SweepRequest, token: str) -> float | None:
    """Run one job of a sweep, or find it finished; leave its outcome in the sweep's folder and return its number."""
    hydra_config = HydraConfig.get()
    sweep, folder = Path(hydra_config.sweep.dir).absolute(), Path(hydra_config.runtime.output_dir)
    threads = threads_per_job(hydra_config.launcher)
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    earlier = lost_run(folder, token)
    if earlier == Earlier() and request.resume is not None:
        earlier = earlier_runs(folder, sweep)
    known = [*earlier.finished, *earlier.under_way]
    outcome = _taken_over(folder, earlier) if known else _run_afresh(config, folder, sweep, earlier, token)
    leave_outcome(sweep, token, hydra_config.job.num, outcome)
    optimises = not hydra_config.sweeper._target_.endswith("BasicSweeper")
    place = known[0] if known else folder
    return objective_of(place, request.objective) if optimises and place.is_dir() else None


def _taken_over(folder: Path, earlier: Earlier) -> Outcome:
    """A finished job counts as it ended; one that another process is doing is neither disturbed nor called done."""
    withdraw(folder)
    if earlier.finished:
        summary = summary_of(earlier.finished[0])
        print(f"finished before, not run again: {earlier.finished[0].name}")
        return Outcome(ExitStatus(summary["exit_status"]), summary["message"])
    return Outcome(ExitStatus.FAILED, f"left alone, because it is still under way elsewhere: {earlier.under_way[0]}")


def _run_afresh(config: DictConfig, folder: Path, sweep: Path, earlier: Earlier, token: str) -> Outcome:
    """Whatever fails in a job is its outcome, so that the others count as well."""
    for unfinished in earlier.unfinished:
        place = vacate(folder, sweep) if unfinished == folder else set_aside(unfinished, sweep)
        print(f"unfinished, moved to {place} and run again")
    try:
        with marked_under_way(folder), sigterm_interrupts():  # here, because this may be a process of its own
            begin(folder, token)
            return _run_job(config)
    except Exception as error:
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        return Outcome(ExitStatus.FAILED, _failure(error))


def _run_job(config: DictConfig) -> Outcome:
    """Validate before anything slow is imported; a wrong setting is an outcome, so that a sweep goes on without it."""
    try:
        settings = settings_from(config)
    except (OmegaConfBaseException, UserError) as error:
        return Outcome(ExitStatus.WRONG_CONFIGURATION, _sentence(error))
    (execute,) = in_background(_imported())
    from robust_attn.terminal import console, debug_messages

    screen, hydra_config = console(), HydraConfig.get()
    sweep = sweep_name(Path(hydra_config.sweep.dir)) if hydra_config.mode is RunMode.MULTIRUN else None
    with debug_messages(screen) if hydra_config.verbose else contextlib.nullcontext():
        try:
            return execute(
                settings.as_values(), plain(config), Path(hydra_config.runtime.output_dir), screen, sweep=sweep
            )
        except UserError as error:
            return Outcome(ExitStatus.WRONG_CONFIGURATION, str(error))


def _imported() -> Iterator[Callable[..., Outcome]]:
    """`execute`, and with it torch and all the rest; Ctrl-C is not to be raised in the middle of somebody's module."""
    from robust_attn.run import execute

    yield execute


def _worst(statuses: list[ExitStatus]) -> ExitStatus:
    """A violated certificate comes before a failure, a failure before a wrong configuration."""
    order = (ExitStatus.VIOLATED, ExitStatus.FAILED, ExitStatus.WRONG_CONFIGURATION)
    return next((status for status in order if status in statuses), ExitStatus.OK)


def _failure(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words} (set {TRACEBACK_VARIABLE}=1 for the traceback)"


def _refuse(sentence: str) -> ExitStatus:
    print(f"robust_attn: {sentence}", file=sys.stderr)
    return ExitStatus.WRONG_CONFIGURATION


def _fail(sentence: str) -> ExitStatus:
    print(f"robust_attn: {sentence}", file=sys.stderr)
    return ExitStatus.FAILED


def _grammar(text: str) -> str:
    """What the parser of Hydra expected, nothing where it only shows the place."""
    said = re.sub(r"^Error parsing override '.*' ?(?=\w)", "", text.partition(" See https://")[0])
    return "" if said.startswith("LexerNoViableAlt") else said


def _sentence(error: BaseException) -> str:
    """What Hydra, OmegaConf or this package has to say, as one sentence without their internals."""
    text = " ".join(str(error).split())
    if isinstance(error, OverrideParseException):
        return unreadable(error.override, _grammar(text))
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
