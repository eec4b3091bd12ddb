"""What a sweep of small jobs costs beyond their own work, and what two processes give.

python -m benchmarks.sweep_overhead [--jobs 100] [--rounds 1] [--without-joblib]

A job is one run on one layer of the toy model, with its records, report and figures. `loop` does all of them one after
another in one process, without Hydra; `basic` is the sweep by Hydra's basic launcher, `joblib` the one by two workers
(extra 'joblib'). `records` is a loop without any files: what is left when report and run folder are taken away.

Every figure is of whole processes, start included. In each round the ways take turns, so that whatever else the machine
does meets all of them; the median of the rounds counts. Processor time is printed beside wall time, as it hardly
depends on other load: the overhead is taken from it, the speed-up of two workers from wall time,
which means nothing unless two cores are idle.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("model=toy", "layers=[0]", "tracker=none", "samples=1", "tokens=8", "attack.steps=20")
SETUP = """
import sys
from dataclasses import replace
from pathlib import Path
from rich.console import Console
from tests.composed import composed
from robust_attn.config.settings import plain, settings_from
jobs, *small = sys.argv[1:]
config = composed(*small)
settings = [replace(settings_from(config), seed=seed) for seed in range(int(jobs))]
"""
LOOP = """
from robust_attn.run import execute
for each in settings:
    execute(each, plain(config) | {"seed": each.seed}, Path("loop") / str(each.seed), Console(quiet=True))
"""
RECORDS = """
from robust_attn.work import Work
for each in settings:
    assert len(list(each.task.records(Work(each)))) == 1
"""


@dataclass(frozen=True)
class Cost:
    """Seconds by the clock, and of processors."""

    wall: float
    cpu: float


def ways(jobs: int, *, joblib: bool) -> dict[str, list[str]]:
    """The commands that do the same jobs."""
    sweep = [sys.executable, "-m", "robust_attn", "-m", *SMALL, f"seed=range({jobs})", "hydra.sweep.dir=sweep"]
    parallel = {"joblib": [*sweep, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]} if joblib else {}
    return {
        "records": [sys.executable, "-c", SETUP + RECORDS, str(jobs), *SMALL],
        "loop": [sys.executable, "-c", SETUP + LOOP, str(jobs), *SMALL],
        "basic": sweep,
        **parallel,
    }


def cost(command: list[str], jobs: int) -> Cost:
    """What a command costs in an empty folder; where it leaves runs, every one of them must be complete."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    with tempfile.TemporaryDirectory() as folder:
        before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
        wall, after = time.monotonic() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
        left = len(list(Path(folder).glob("*/*/summary.json")))
    if left not in (0, jobs):
        raise RuntimeError(f"{left} runs are complete, {jobs} were expected")
    return Cost(wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def measured(jobs: int, rounds: int, *, joblib: bool) -> dict[str, Cost]:
    """The median cost of every way; they take turns."""
    commands = ways(jobs, joblib=joblib)
    found: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            found[name].append(cost(command, jobs))
    return {
        name: Cost(median(each.wall for each in costs), median(each.cpu for each in costs))
        for name, costs in found.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--without-joblib", action="store_true")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    found = measured(options.jobs, options.rounds, joblib=not options.without_joblib)
    print(f"{options.jobs} jobs, median of {options.rounds} rounds; load before: {load:.1f} on {os.cpu_count()} cores")
    for name, each in found.items():
        print(
            f"{name:8} {each.wall:7.1f} s wall {each.cpu:7.1f} s processor   per job {each.wall / options.jobs:6.3f} s "
            f"wall {each.cpu / options.jobs:6.3f} s processor"
        )
    extra = (found["basic"].cpu - found["loop"].cpu) / options.jobs
    whole = found["loop"].cpu / options.jobs
    print(
        f"overhead of the sweep beyond the loop, per job: {extra * 1000:.0f} ms of processor, {extra / whole:.0%} of it"
    )
    folder = (found["loop"].cpu - found["records"].cpu) / options.jobs
    print(f"of a job, run folder, report and figures are {folder * 1000:.0f} ms of processor")
    if "joblib" in found:
        speed_up = found["basic"].wall / found["joblib"].wall
        print(f"joblib with two workers is {speed_up:.2f} times as fast as basic")


if __name__ == "__main__":
    main()
