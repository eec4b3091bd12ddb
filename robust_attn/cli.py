"""The command line: Hydra composes the configuration, one sentence says what is wrong. Torch is imported late."""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig
from omegaconf.errors import OmegaConfBaseException

from robust_attn.config.folder import configuration_folder
from robust_attn.config.help import help_text
from robust_attn.config.places import Places, Plan, hash_at, hash_of, is_alone, is_basic
from robust_attn.config.request import request_of
from robust_attn.config.schema import register_schemas
from robust_attn.config.sentences import is_about_settings, sentence_of
from robust_attn.config.settings import expect_used, plain, settings_from
from robust_attn.records.store import RECORDS
from robust_attn.runs.background import in_background, sigterm_interrupts, work_under_way
from robust_attn.runs.sweep.job import Job, done_once, sweep_name, threads_per_job
from robust_attn.runs.sweep.objective import objective_of
from robust_attn.runs.sweep.outcomes import JobOutcome, collect_outcomes, leave_outcome
from robust_attn.types import ExitStatus, Outcome, UserError

TRACEBACK_VARIABLE = "ROBUST_ATTN_TRACEBACK"


def main() -> None:
    """Run what the command line says and leave with the contract's exit status.

    A thread left behind in the middle of torch or wandb cannot be ended, and Python would wait for it or crash with
    it: the process then ends without Python's own closing. Everything of value was closed by then.
    """
    try:
        status = int(run_command_line())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # nothing is left to interrupt
    except KeyboardInterrupt:  # once more, while the end was being told
        status = int(_told("interrupted", ExitStatus.FAILED))
    if work_under_way():
        logging.shutdown()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)
    sys.exit(status)


def run_command_line() -> ExitStatus:
    """Compose the configuration, run the job or the sweep, and turn every failure into one sentence and a status."""
    if "--version" in sys.argv[1:]:
        print(f"robust_attn {version('robust_attn')}")
        return ExitStatus.OK
    if {"--help", "-h"} & set(sys.argv[1:]):  # Hydra's own would take seconds to list the groups
        return _shown(help_text())
    register_schemas()
    os.environ["HYDRA_FULL_ERROR"] = "1"
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    outcomes: list[Outcome] = []
    token = uuid.uuid4().hex
    Places.clear()
    try:
        request = request_of(sys.argv[1:])
        sys.argv[1:] = request.arguments

        def job(config: DictConfig) -> float | None:
            if HydraConfig.get().mode is RunMode.MULTIRUN:
                return _run_sweep_job(config, request.objective, token)
            outcomes.append(_run_job(config))
            return None

        with sigterm_interrupts():
            hydra.main(version_base="1.3", config_path=str(configuration_folder()), config_name="config")(job)()
            for folder, plan in Places.sweeps:
                jobs = collect_outcomes(folder, token)
                outcomes += [job.outcome for job in jobs]
                outcomes += _closed(folder, plan, jobs)
    except (KeyboardInterrupt, Exception) as error:
        return _ended_by(error)
    finally:
        outcomes += [left.outcome for folder, _ in Places.sweeps for left in collect_outcomes(folder, token)]
        for outcome in outcomes:
            if outcome.message:
                _told(outcome.message, outcome.status)
    return ExitStatus.worst([outcome.status for outcome in outcomes])


def _run_sweep_job(config: DictConfig, objective: str, token: str) -> float | None:
    """Run one job of a sweep, or find it finished; leave its outcome in the sweep's folder and return its number."""
    hydra_config = HydraConfig.get()
    sweep, folder = Path(os.path.abspath(hydra_config.sweep.dir)), Path(hydra_config.runtime.output_dir)  # noqa: PTH100
    threads = threads_per_job(hydra_config.launcher)
    if threads is not None:
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))

    def work() -> Outcome:
        """Whatever fails in a job is its outcome, so that the others count as well."""
        try:
            return _run_job(config)
        except Exception as error:
            if os.environ.get(TRACEBACK_VARIABLE):
                raise
            return Outcome(ExitStatus.FAILED, _failure(error))

    with sigterm_interrupts():  # here, because this may be a process of its own
        outcome, settled = done_once(Job(folder, sweep, same=hash_at(folder) == hash_of(config)), work)
    told = JobOutcome(hydra_config.job.num, folder, tuple(hydra_config.overrides.task), outcome, settled=settled)
    leave_outcome(sweep, token, told)
    return None if is_basic(hydra_config.sweeper) else objective_of(folder, objective)


def _run_job(config: DictConfig) -> Outcome:
    """Validate before anything slow is imported; a wrong setting is an outcome, so that a sweep goes on without it."""
    try:
        settings = settings_from(config)
        expect_used(settings, HydraConfig.get().overrides.task)
    except (OmegaConfBaseException, UserError) as error:
        return Outcome(ExitStatus.WRONG_CONFIGURATION, sentence_of(error))
    (execute,) = in_background(_imported())
    from robust_attn.report.terminal import console, debug_messages, told_at_once

    hydra_config = HydraConfig.get()
    sweep = sweep_name(Path(hydra_config.sweep.dir)) if hydra_config.mode is RunMode.MULTIRUN else None
    alone = sweep is None or is_alone(hydra_config.launcher)
    with contextlib.ExitStack() as stack:
        screen = console() if alone else stack.enter_context(told_at_once(hydra_config.job.num + 1))
        if hydra_config.verbose:
            stack.enter_context(debug_messages(screen if alone else console()))
        try:
            return execute(settings, plain(config), Path(hydra_config.runtime.output_dir), screen, sweep=sweep)
        except UserError as error:
            return Outcome(ExitStatus.WRONG_CONFIGURATION, str(error))


def _imported() -> Iterator[Callable[..., Outcome]]:
    """`execute`, and with it torch and all the rest; Ctrl-C is not to be raised in the middle of somebody's module."""
    from robust_attn.run import execute

    yield execute


def _closed(sweep: Path, plan: Plan, jobs: Sequence[JobOutcome]) -> list[Outcome]:
    """Show a table and write a report over the jobs, if any left records; what cannot be written is an outcome."""
    from robust_attn.report import write_sweep_report
    from robust_attn.report.terminal import console
    from robust_attn.runs.sweep.table import jobs_table

    console().print(jobs_table([(job, plan.words(job.overrides)) for job in jobs]))
    try:
        if any((job.folder / RECORDS).exists() for job in jobs):
            print(f"report over the sweep: {write_sweep_report(sweep)}")
    except Exception as error:
        return [Outcome(ExitStatus.FAILED, f"the jobs are done, but not the report over them: {_failure(error)}")]
    return []


def _ended_by(error: BaseException) -> ExitStatus:
    """The sentence and the status of what ended everything."""
    resume = "".join(f"; sweep.resume={folder} runs what is missing" for folder, _ in Places.sweeps[-1:])
    if _was_interrupted(error):
        return _told("interrupted" + resume, ExitStatus.FAILED)
    if is_about_settings(error):
        return _told(sentence_of(error), ExitStatus.WRONG_CONFIGURATION)
    if os.environ.get(TRACEBACK_VARIABLE):
        raise error
    if isinstance(error, OSError) and error.filename and not Places.begun:  # Hydra makes the folder before the job
        sentence = f"The run folder {error.filename} cannot be written: {error.strerror}."
        return _told(sentence, ExitStatus.WRONG_CONFIGURATION)
    if not Places.begun and not Places.sweeps:  # Hydra could not make sense of what was typed
        return _told(_failure(error), ExitStatus.WRONG_CONFIGURATION)
    return _told(_failure(error) + resume, ExitStatus.FAILED)


def _was_interrupted(error: BaseException | None) -> bool:
    """Whether this is Ctrl-C or what became of it: raised while OmegaConf tidies up, it comes out as another error.

    A disk that fails while an interrupted run is closed is a matter of its own, and told as such.
    """
    while error is not None and not isinstance(error, KeyboardInterrupt | OSError):
        error = error.__context__
    return isinstance(error, KeyboardInterrupt)


def _failure(error: BaseException) -> str:
    words = " ".join(str(error).split())
    return f"{type(error).__name__}: {words} (set {TRACEBACK_VARIABLE}=1 for the traceback)"


def _shown(text: str) -> ExitStatus:
    """Print it, to a reader who may have seen enough (`| head`) before its end."""
    try:
        print(text, flush=True)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what Python writes when it ends goes nowhere
    return ExitStatus.OK


def _told(sentence: str, status: ExitStatus) -> ExitStatus:
    print(f"robust_attn: {sentence}", file=sys.stderr)
    return status
