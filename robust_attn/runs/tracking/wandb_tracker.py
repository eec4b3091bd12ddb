"""Weights & Biases. The only file that imports wandb, and it trusts nothing that wandb does."""

import contextlib
import importlib
import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

from robust_attn.records.kinds import Record
from robust_attn.records.store import ENVIRONMENT
from robust_attn.records.summary import Summary
from robust_attn.runs.sweep.objective import objectives
from robust_attn.runs.tracking.errands import Errands
from robust_attn.runs.tracking.flat import metrics, outcome, plain, scalars, table
from robust_attn.runs.tracking.tracker import Begun, Tracker
from robust_attn.types import RunState

START_SECONDS = 20.0  # importing wandb and starting its service, on a busy machine
SERVER_SECONDS = 6.0
FINISH_SECONDS = {"offline": 30.0, "online": 60.0}
INTERRUPTED_SECONDS = 0.5  # somebody pressed Ctrl-C and waits
DATA_VARIABLE = "WANDB_DATA_DIR"
STAGING = Path("wandb") / "artifacts" / "staging"
SETTINGS = "settings"
LONGEST_TAG = 64
STEP_ROWS = 5_000
TABLE_ROWS = 10_000
# With a dot in the name of a step metric, wandb 0.31 stores wrong steps at random (3 read back as 0). A slash works.
_STEP, _STEP_CHANGE = "attack/step", "attack/output_change"
_SUMMARIES = {
    "observed/output_change": "max",
    "observed/gain": "max",
    "certified/output_change": "max",
    "tightness": "min,max",
}
_FILES = ("report.html", "report.md", "records.jsonl", "summary.json", "environment.json")


@final
class WandbTracker(Tracker):
    """One wandb run per job, its files inside the run folder. The first failure is said once and ends the tracking.

    wandb works in a thread of its own. The run waits until it is imported and when it ends, for a limited time, and in
    between not at all.
    """

    def __init__(self, mode: str, project: str, warn: Callable[[str], None] | None = None) -> None:
        self._mode = mode
        self._project = project
        self._warn = warn or (lambda message: print(f"warning: {message}", file=sys.stderr))
        self._errands = Errands(self._stop_tracking)
        self._run: Any = None  # the wandb run, from its opening until it is closed
        self._working = True  # False once anything has failed
        self._folder = Path()
        self._told_environment = False
        self._records: list[Record] = []
        self._steps = 0

    def start(self, run: Begun) -> None:
        """Import wandb, so that it and the model are not imported at the same time; its run is opened meanwhile."""
        self._folder = run.folder
        self._give(_import_all)
        self._wait(START_SECONDS)
        self._give(lambda: self._open(run))

    def record(self, record: Record) -> None:
        """Have what was measured logged, and the steps of the attack; with the first one, what the run runs on."""
        if not self._told_environment:
            self._told_environment = True
            self._give(self._tell_environment)
        self._give(lambda: self._log(record))

    def finish(self, summary: Summary, folder: Path) -> None:
        """Hand over summary, table, figures and files; then close the run whatever became of that.

        After an interrupt only the summary: whoever pressed Ctrl-C waits, and everything is in the run folder.
        """
        interrupted = summary.status is RunState.INTERRUPTED
        self._give(lambda: self._run.summary.update(outcome(summary)))
        if not interrupted:
            self._give(lambda: self._hand_over(folder))
        complete = summary.status is RunState.COMPLETE
        self._errands.give(lambda: self._close(exit_code=0 if complete else 1))
        self._wait(INTERRUPTED_SECONDS if interrupted else FINISH_SECONDS[self._mode])
        self._errands.close()

    def _give(self, call: Callable[[], None]) -> None:
        """Have `call` done unless something has failed by the time it is its turn."""
        self._errands.give(lambda: call() if self._working else None)

    def _wait(self, seconds: float) -> None:
        """A wandb that does not answer in time is left to itself."""
        if not self._working and self._run is None:
            return
        try:
            self._errands.wait(seconds)
        except TimeoutError as problem:
            self._stop_tracking(problem)

    def _stop_tracking(self, problem: BaseException) -> None:
        """The first failure is a warning and the end of the tracking, later ones are silent."""
        if self._working:
            self._working = False
            reason = " ".join(f"{type(problem).__name__}: {problem}".split())
            self._warn(f"wandb tracking stopped ({reason[:160]}); the run goes on and its results are on disk.")

    def _open(self, run: Begun) -> None:
        """The settings stand under a key of their own: a sweep of W&B's puts plain words such as `model` beside it."""
        import wandb

        options: dict[str, Any] = {"mode": self._mode, "reinit": "create_new"}
        self._run = wandb.init(
            project=self._project,
            dir=str(run.folder),
            name=run.folder.name,
            group=run.sweep,
            job_type=run.task or None,
            tags=[tag[:LONGEST_TAG] for tag in run.tags],
            config={SETTINGS: plain(run.config)},
            settings=_settings(wandb.Settings),
            **options,
        )
        self._run.define_metric("record")
        self._run.define_metric(_STEP)
        self._run.define_metric(_STEP_CHANGE, step_metric=_STEP, summary="max")
        for metric, summary in _SUMMARIES.items():
            self._run.define_metric(metric, step_metric="record", summary=summary)

    def _tell_environment(self) -> None:
        """Commit, versions, weights and their SHA-256, known once the model is loaded."""
        place = self._folder / ENVIRONMENT
        if place.is_file():
            self._run.config.update({"environment": plain(json.loads(place.read_text(encoding="utf-8")))})

    def _log(self, record: Record) -> None:
        number = len(self._records)
        self._records.append(record)
        self._run.log({"record": number, **metrics(record)})
        for step, change in enumerate(getattr(record, "convergence", ())):
            if change is not None and self._steps < STEP_ROWS:
                self._run.log({"record": number, _STEP: step, _STEP_CHANGE: change})
                self._steps += 1

    def _hand_over(self, folder: Path) -> None:
        """Table, figures, files, and at last the numbers that W&B's sweeps compare runs by."""
        import wandb

        if self._records:
            columns, lines = table([scalars(record) for record in self._records[:TABLE_ROWS]])
            with _staging_in(folder / "wandb"):
                made = wandb.Table(columns=[*columns], data=lines)
                self._run.log({"records": made})
            _remove_unused(folder / STAGING, made)
        figures = sorted((folder / "figures").glob("*.png"))
        if figures:
            self._run.log({f"figures/{path.stem}": wandb.Image(str(path)) for path in figures})
        artifact = wandb.Artifact(f"run-{self._run.id}", type="report")
        for path in (folder / name for name in _FILES):
            if path.is_file():
                artifact.add_file(str(path), name=path.name, policy="immutable", skip_cache=True)
        self._run.log_artifact(artifact)
        known = {f"objective/{name}": value for name, value in objectives(self._records).items() if value is not None}
        if known:
            self._run.log(known)

    def _close(self, exit_code: int) -> None:
        if self._run is not None:
            run, self._run = self._run, None
            run.finish(exit_code=exit_code)
            if self._mode == "online":  # what was staged has been sent
                shutil.rmtree(self._folder / STAGING, ignore_errors=True)


def _import_all() -> None:
    """wandb, and what it imports when it opens a run that others import too."""
    importlib.import_module("wandb")
    importlib.import_module("requests")


def _remove_unused(staging: Path, table: Any) -> None:
    """Remove staged files that the artifact of the table does not refer to: wandb 0.31 stages it twice.

    The other copy is what `wandb sync` sends later. If wandb does not tell which one that is, both stay.
    """
    artifact = getattr(getattr(table, "_artifact_target", None), "artifact", None)
    entries = getattr(getattr(artifact, "manifest", None), "entries", None)
    if not entries:
        return
    used = {str(entry.local_path) for entry in entries.values()}
    for path in staging.glob("tmp*") if used else ():
        if str(path) not in used:
            path.unlink()


def _settings(kind: Any) -> Any:
    """Quiet, in a hurry, told nothing about machine, code or person; as far as the installed wandb knows the words."""
    wanted = {
        "silent": True,
        "console": "off",
        "init_timeout": SERVER_SECONDS,
        "login_timeout": SERVER_SECONDS,
        "finish_timeout": FINISH_SECONDS["online"] - 10,
        "x_service_wait": START_SECONDS - 3,
        "disable_git": True,
        "disable_code": True,
        "disable_job_creation": True,
        "save_code": False,
        "x_disable_meta": True,
        "x_disable_stats": True,
        "x_disable_machine_info": True,
        "x_save_requirements": False,
        "host": "",
    }
    return kind(**{name: value for name, value in wanted.items() if name in kind.model_fields})


@contextlib.contextmanager
def _staging_in(folder: Path) -> Iterator[None]:
    """Have wandb put aside what it will send in `folder` and not at home, so that the run folder is all there is."""
    given = os.environ.get(DATA_VARIABLE)
    os.environ[DATA_VARIABLE] = given or str(folder)
    try:
        yield
    finally:
        if given is None:
            del os.environ[DATA_VARIABLE]
