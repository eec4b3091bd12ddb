"""What a sweep of small jobs costs beyond their own work, and what two processes give.

python -m benchmarks.sweep_overhead [--jobs 100] [--joblib]

A job here is one run of the toy model. `loop` executes the same runs one after another in one process without Hydra's
sweep; `basic` is the sweep by the basic launcher; `joblib` the same with two workers (extra 'joblib').
Seconds are whole processes, start included, so that nothing is left out; `--jobs` large makes the start negligible.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SMALL = ("model=toy", "tracker=none", "samples=1", "tokens=8", "attack.steps=20")
LOOP = """
import sys
from pathlib import Path
from rich.console import Console
from tests.composed import composed
from robust_attn.config import plain, settings_from
from robust_attn.run import execute
folder, jobs, *small = sys.argv[1:]
for seed in range(int(jobs)):
    config = composed(*small, f"seed={seed}")
    execute(settings_from(config), plain(config), Path(folder) / str(seed), Console(quiet=True))
"""


def seconds(command: list[str], folder: str) -> float:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    started = time.monotonic()
    subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=True)
    return time.monotonic() - started


def measured(jobs: int, *, joblib: bool) -> dict[str, float]:
    """Seconds of each way to do the same jobs."""
    sweep = [sys.executable, "-m", "robust_attn", "-m", *SMALL, f"seed=range({jobs})"]
    ways = {"loop": [sys.executable, "-c", LOOP, "loop", str(jobs), *SMALL], "basic": sweep}
    if joblib:
        ways["joblib"] = [*sweep, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2"]
    found = {}
    for name, command in ways.items():
        with tempfile.TemporaryDirectory() as folder:
            found[name] = seconds(command, folder)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, default=100)
    parser.add_argument("--joblib", action="store_true")
    options = parser.parse_args()
    found = measured(options.jobs, joblib=options.joblib)
    for name, value in found.items():
        print(f"{name:8} {value:8.1f} s   {value / options.jobs:6.3f} s per job   {value / found['loop']:5.2f} of loop")
    extra = (found["basic"] - found["loop"]) / options.jobs
    print(f"overhead of the sweep per job, beyond the loop: {extra * 1000:.0f} ms")
    if "joblib" in found:
        print(f"joblib with two workers is {found['basic'] / found['joblib']:.2f} times as fast as basic")


if __name__ == "__main__":
    main()
