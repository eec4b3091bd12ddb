"""Weights & Biases. The only file that imports wandb, and it trusts nothing that wandb does."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, final

from robust_attn.tracking.deadline import within
from robust_attn.tracking.flat import metrics, plain, table
from robust_attn.tracking.tracker import Tracker

START_SECONDS = 20.0  # importing wandb and starting its service, on a busy machine
SERVER_SECONDS = 6.0
RECORD_SECONDS = 10.0
FINISH_SECONDS = {"offline": 30.0, "online": 60.0}
STEP_ROWS = 5_000
TABLE_ROWS = 10_000
# With a dot in the name of a step metric, wandb 0.31 stores wrong steps at random (3 read back as 0). A slash works.
_STEP, _STEP_CHANGE = "attack/step", "attack/output_change"
_FILES = ("report.html", "report.md", "records.jsonl", "summary.json", "environment.json")


@final
class WandbTracker(Tracker):
    """One wandb run per job, its files inside the run folder. The first failure is said once and ends the tracking."""

    def __init__(self, mode: str, project: str, warn: Callable[[str], None] | None = None) -> None:
        self._mode = mode
        self._project = project
        self._warn = warn or _warn_on_stderr
        self._run: Any = None  # the wandb run, from its opening until it is closed
        self._working = False  # False once anything has failed
        self._rows: list[dict[str, Any]] = []
        self._records = 0
        self._steps = 0

    def start(self, run_folder: Path, config: dict[str, Any], name: str, group: str) -> None:
        """Open the wandb run."""
        self._run, self._rows, self._records, self._steps = None, [], 0, 0
        self._working = True
        self._guarded(START_SECONDS, lambda: self._open(run_folder, config, name, group))

    def record(self, record: dict[str, Any]) -> None:
        """Log the scalars of a record, and the steps of its attack."""
        if self._working and self._run is not None:
            self._guarded(RECORD_SECONDS, lambda: self._log(record))

    def finish(self, summary: dict[str, Any], folder: Path, failed: bool) -> None:
        """Hand over summary, table, figures and files; then close the run whatever became of that."""
        run = self._run
        if run is None:
            return
        if self._working:
            self._guarded(FINISH_SECONDS[self._mode], lambda: self._hand_over(summary, folder))
        self._guarded(FINISH_SECONDS[self._mode], lambda: run.finish(exit_code=1 if failed else 0))
        self._run, self._working = None, False

    def _guarded(self, seconds: float, call: Callable[[], None]) -> None:
        """Make the call; its first failure is a warning and the end of the tracking, later ones are silent."""
        try:
            within(seconds, call)
        except KeyboardInterrupt:
            raise
        except BaseException as problem:  # wandb has raised SystemExit and its own BaseExceptions
            if self._working:
                reason = " ".join(f"{type(problem).__name__}: {problem}".split())
                self._warn(f"wandb tracking stopped ({reason[:160]}); the run goes on and its results are on disk.")
            self._working = False

    def _open(self, run_folder: Path, config: dict[str, Any], name: str, group: str) -> None:
        import wandb

        options: dict[str, Any] = {"mode": self._mode, "reinit": "create_new"}
        self._run = wandb.init(
            project=self._project,
            dir=str(run_folder),
            name=name,
            group=group or None,
            config=plain(config),
            settings=_settings(wandb.Settings),
            **options,
        )
        self._run.define_metric("record")
        self._run.define_metric(_STEP)
        self._run.define_metric(_STEP_CHANGE, step_metric=_STEP)

    def _log(self, record: dict[str, Any]) -> None:
        row = metrics(record)
        self._run.log({"record": self._records, **row})
        self._records += 1
        if len(self._rows) < TABLE_ROWS:
            self._rows.append(row)
        steps = plain(record.get("convergence") or [])
        for step, change in enumerate(steps if isinstance(steps, list) else []):
            if isinstance(change, int | float) and self._steps < STEP_ROWS:
                self._run.log({"record": self._records - 1, _STEP: step, _STEP_CHANGE: change})
                self._steps += 1

    def _hand_over(self, summary: dict[str, Any], folder: Path) -> None:
        import wandb

        self._run.summary.update(plain(summary))
        if self._rows:
            columns, lines = table(self._rows)
            self._run.log({"records": wandb.Table(columns=[*columns], data=lines)})
        figures = sorted((folder / "figures").glob("*.png"))
        if figures:
            self._run.log({f"figures/{path.stem}": wandb.Image(str(path)) for path in figures})
        artifact = wandb.Artifact(f"run-{self._run.id}", type="report")
        for path in (folder / name for name in _FILES):
            if path.is_file():
                artifact.add_file(str(path), name=path.name, policy="immutable", skip_cache=True)
        self._run.log_artifact(artifact)


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


def _warn_on_stderr(message: str) -> None:
    print(f"warning: {message}", file=sys.stderr)
