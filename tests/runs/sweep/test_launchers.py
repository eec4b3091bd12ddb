"""Sweeps through other launchers and sweepers, each run for real where its extra is installed; W&B's sweep files."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from robust_attn.cli import configuration_folder
from robust_attn.config.settings import settings_from
from robust_attn.models.catalog import CATALOG
from robust_attn.runs.sweep.objective import OBJECTIVES
from tests.composed import composed
from tests.test_cli import ENVIRONMENT, ROOT

SMALL = ("-m", "model=toy", "tracker=none", "samples=1", "attack=random", "certificate.seed=0")
RAY = ("+hydra.launcher.ray.init.num_cpus=2", "+hydra.launcher.ray.init.include_dashboard=false")
SWEEP_FILES = sorted((configuration_folder() / "wandb_sweeps").glob("*.yaml"))


KILLER = """
import os, signal
from pathlib import Path
done, replace = Path(__file__).with_name("done"), Path.replace
def second(job):
    return "tokens=5" in (job / ".hydra" / "overrides.yaml").read_text()
def fatal(path, target):
    if Path(target).name == "environment.json" and second(Path(target).parent) and not done.exists():
        done.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return replace(path, target)
Path.replace = fatal
"""
"""Python imports this at its start: the first that writes the environment of the job with 5 tokens is gone, as if
memory ran out."""


def needs(plugin: str, extra: str) -> pytest.MarkDecorator:
    missing = importlib.util.find_spec("hydra_plugins") is None
    missing = missing or importlib.util.find_spec(f"hydra_plugins.{plugin}") is None
    return pytest.mark.skipif(missing, reason=f"the extra '{extra}' is not installed")


def sweep(folder: Path, *arguments: str, more_path: Path = ROOT) -> subprocess.CompletedProcess[str]:
    """A sweep into `folder` by a user who set no number of threads; what Ray keeps at home goes elsewhere."""
    environment = {key: value for key, value in ENVIRONMENT.items() if key != "OMP_NUM_THREADS"}
    environment |= {"PYTHONPATH": f"{ROOT}:{more_path}", "RAY_USAGE_STATS_ENABLED": "0", "HOME": str(folder.parent)}
    environment |= {"RAY_worker_niceness": "0"}  # its own default lets workers wait for every other job of a machine
    return subprocess.run(
        [sys.executable, "-m", "robust_attn", *SMALL, *arguments, f"hydra.sweep.dir={folder}"], cwd=folder.parent,
        env=environment, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip


def records(folder: Path) -> dict[str, bytes]:
    return {path.parent.name: path.read_bytes() for path in folder.glob("*/records.jsonl")}


@pytest.fixture(scope="module")
def basic(tmp_path_factory) -> dict[str, bytes]:
    folder = tmp_path_factory.mktemp("basic") / "sweep"
    assert sweep(folder, "tokens=4,5").returncode == 0
    return records(folder)


@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param(
            ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2"),
            marks=[needs("hydra_joblib_launcher", "joblib"), pytest.mark.slow], id="joblib",
        ),
        pytest.param(
            ("hydra/launcher=submitit_local",),
            marks=[needs("hydra_submitit_launcher", "submitit"), pytest.mark.slow], id="submitit",
        ),
        pytest.param(
            ("hydra/launcher=ray", *RAY), marks=[needs("hydra_ray_launcher", "ray"), pytest.mark.slow], id="ray",
        ),
    ],
)  # fmt: skip
def test_jobs_in_other_processes_give_the_same_records_statuses_and_sentences(arguments, basic, tmp_path):
    """Job 1 of three is wrong: the others run, its sentence and its status come back from the other process."""
    done = sweep(tmp_path / "sweep", "tokens=4,0,5", *arguments)
    assert done.returncode == 2, done.stderr
    assert [line for line in done.stderr.splitlines() if line.startswith("robust_attn:")] == [
        "robust_attn: tokens must be at least 1, got 0."
    ]
    assert records(tmp_path / "sweep") == basic
    assert not (tmp_path / "sweep" / ".outcomes").exists()
    threads = [json.loads(p.read_text())["threads"] for p in (tmp_path / "sweep").glob("*/environment.json")]
    assert len(threads) == 2
    assert max(threads) <= max(1, (os.cpu_count() or 1) // 2)


def one_run(folder: Path, *arguments: str) -> dict[tuple[int, int], dict[str, Any]]:
    """Records of one process by layer and sample."""
    settings = [item for item in SMALL if item != "-m" and not item.startswith("samples=")]
    done = subprocess.run(
        [sys.executable, "-m", "robust_attn", *settings, *arguments, f"hydra.run.dir={folder}"], cwd=folder.parent,
        env=ENVIRONMENT | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return _by_place((folder / "records.jsonl").read_bytes().splitlines())


def _by_place(lines: list[bytes]) -> dict[tuple[int, int], dict[str, Any]]:
    found = [json.loads(line) for line in lines]
    return {(record["layer"], record["sample"]): record for record in found}


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    [
        pytest.param((), id="basic"),
        pytest.param(
            ("hydra/launcher=submitit_local",), marks=needs("hydra_submitit_launcher", "submitit"), id="submitit",
        ),
        pytest.param(("hydra/launcher=ray", *RAY), marks=needs("hydra_ray_launcher", "ray"), id="ray"),
    ],
)  # fmt: skip
def test_layers_and_samples_as_jobs_have_the_records_of_one_process_and_one_report(arguments, tmp_path):
    """Every field of every record, whichever process made it; nothing in a record is a time or a path."""
    asked = ("attack=move", "attack.steps=3", "layers=[0,1]", "samples=2", "tokens=5")
    alone = one_run(tmp_path / "alone", *asked, "only=[0,1]")
    folder = tmp_path / "sweep"
    done = sweep(folder, *asked, "sweep.jobs=layers,samples", *arguments)
    assert done.returncode == 0, done.stderr
    jobs = records(folder)
    assert len(jobs) == 4
    assert _by_place([line for content in jobs.values() for line in content.splitlines()]) == alone
    assert set(alone) == {(layer, sample) for layer in (0, 1) for sample in (0, 1)}
    assert (folder / "report.html").is_file()
    assert all(name in (folder / "report.md").read_text() for name in jobs)


@pytest.mark.slow
@needs("hydra_joblib_launcher", "joblib")
def test_resuming_in_parallel_runs_only_what_is_missing(tmp_path):
    folder = tmp_path / "sweep"
    assert sweep(folder, "tokens=4,5").returncode == 0
    parallel = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", f"sweep.resume={folder}")
    done = sweep(folder, "tokens=6,5,4", *parallel)
    assert done.returncode == 0, done.stderr
    assert len(list(folder.glob("*/summary.json"))) == 3
    assert done.stdout.count("finished before, not run again") == 2
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("job ") and " of " in line) == [
        "job 1 of 3: tokens=6",
        "job 2 of 3: tokens=5",
        "job 3 of 3: tokens=4",
    ]
    assert not (tmp_path / "sweep.unfinished").exists()


@pytest.mark.slow
@needs("hydra_joblib_launcher", "joblib")
def test_the_same_settings_twice_at_the_same_time_are_one_job(tmp_path):
    """The second worker finds the lock of the first, and the sweep counts the job as it ended."""
    done = sweep(tmp_path / "sweep", "tokens=4,4", "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")
    assert done.returncode == 0, done.stderr
    assert len(records(tmp_path / "sweep")) == 1
    assert not (tmp_path / "sweep.unfinished").exists()


@pytest.fixture
def killer(tmp_path) -> Path:
    folder = tmp_path / "killer"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(KILLER)
    return folder


@pytest.mark.slow
@needs("hydra_joblib_launcher", "joblib")
def test_a_lost_worker_of_joblib_is_one_sentence_and_the_sweep_can_go_on(killer, tmp_path):
    folder, parallel = tmp_path / "sweep", ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2", "tokens=4,5")
    done = sweep(folder, *parallel, more_path=killer)
    assert done.returncode == 1, done.stderr
    said = [line for line in done.stderr.splitlines() if line.startswith("robust_attn:")]
    assert len(said) == 1
    assert "TerminatedWorkerError" in said[0]
    assert said[0].endswith(f"sweep.resume={folder} runs what is missing")
    assert sweep(folder, *parallel, f"sweep.resume={folder}").returncode == 0
    assert len(records(folder)) == 2


@pytest.mark.slow
@needs("hydra_ray_launcher", "ray")
def test_a_job_whose_worker_ray_lost_runs_again_in_its_folder(killer, tmp_path):
    folder = tmp_path / "sweep"
    done = sweep(folder, "hydra/launcher=ray", *RAY, "tokens=4,5", more_path=killer)
    assert done.returncode == 0, done.stderr
    assert (killer / "done").exists()
    assert len(records(folder)) == 2
    assert all((folder / name / "report.html").is_file() for name in records(folder))
    (lost,) = (tmp_path / "sweep.unfinished").iterdir()
    assert lost.name in records(folder)
    assert "tokens=5" in (folder / lost.name / ".hydra" / "overrides.yaml").read_text()


@pytest.mark.slow
@needs("hydra_optuna_sweeper", "optuna")
@pytest.mark.parametrize(("objective", "direction"), [("gain", "maximize"), ("tightness", "minimize")])
def test_optuna_finds_the_best_of_all_when_it_tries_all(objective, direction, tmp_path):
    """The grid sampler tries every length, so the best value is that of a loop over the records."""
    folder = tmp_path / "sweep"
    done = sweep(
        folder, "tokens=choice(4,5,6)", "hydra/sweeper=optuna", "hydra/sweeper/sampler=grid", "hydra.sweeper.n_jobs=1",
        f"hydra.sweeper.direction={direction}", f"sweep.objective={objective}",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for content in records(folder).values() for line in content.splitlines()]
    assert {line["tokens"] for line in lines} == {4, 5, 6}
    gains, tightness = [line["observed"]["gain"] for line in lines], [line["tightness"] for line in lines]
    best = {"gain": max(gains), "tightness": min(tightness)}
    assert yaml.safe_load((folder / "optimization_results.yaml").read_text())["best_value"] == best[objective]


def values_of(parameter: dict[str, Any]) -> list[Any]:
    """Every value that W&B may choose; of a range, its ends."""
    if "values" in parameter:
        return list(parameter["values"])
    return [parameter["value"]] if "value" in parameter else [parameter["min"], parameter["max"]]


@pytest.mark.parametrize("path", SWEEP_FILES, ids=lambda path: path.stem)
def test_every_value_of_a_wandb_sweep_composes(path):
    """W&B's own code writes the arguments; Hydra composes them and the settings are valid. Each value once at least."""
    from wandb.sdk.launch.sweeps.utils import create_sweep_command_args

    content = yaml.safe_load(path.read_text())
    assert content["command"] == ["${env}", "python", "-m", "robust_attn", "${args_no_hyphens}"]
    names = list(content["parameters"])
    choices = [list(values_of(each)) for each in content["parameters"].values()]
    longest = max(map(len, choices))
    assert longest > 1
    combinations = [[values[index % len(values)] for values in choices] for index in range(longest)]
    for values in combinations:
        command = {"args": {name: {"value": value} for name, value in zip(names, values, strict=True)}}
        settings = settings_from(composed(*create_sweep_command_args(command)["args_no_hyphens"]))
        chosen = dict(zip(names, values, strict=True))
        assert (settings.model.name, settings.tokens) == (chosen["model"], chosen["tokens"])
        assert settings.tracker.mode == "online"
        count = CATALOG[settings.model.name].sizes["num_hidden_layers"]
        assert all(layer in range(count) for layer in settings.layers_of(count))


@pytest.mark.parametrize("path", SWEEP_FILES, ids=lambda path: path.stem)
def test_every_wandb_sweep_keeps_to_the_schema_of_wandb(path):
    """wandb_sweep_schema.json is that of W&B's own engine: sweeps 0.2.0, sweeps/config/schema.json, MIT licence."""
    schema = json.loads(Path(__file__).with_name("wandb_sweep_schema.json").read_text())
    validator = jsonschema.Draft7Validator(schema)
    content = yaml.safe_load(path.read_text())
    assert [error.message for error in validator.iter_errors(content)] == []
    assert not validator.is_valid(content | {"methods": "grid"})
    assert not validator.is_valid(content | {"method": "gird"})


def test_the_metric_of_every_wandb_sweep_is_one_that_is_tracked():
    """tests/runs/tracking reads these numbers back from a real wandb run."""
    directions = {"objective/gain": "maximize", "objective/tightness": "minimize"}
    assert set(directions) == {f"objective/{name}" for name in OBJECTIVES}
    for path in SWEEP_FILES:
        metric = yaml.safe_load(path.read_text())["metric"]
        assert metric["goal"] == directions[metric["name"]]
