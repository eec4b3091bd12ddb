"""How long a run takes to end after Ctrl-C, and what it has written by then.

python -m benchmarks.interrupt [--times 5] [SETTING ...]

A real run, attacked for ever, gets a real SIGINT in its second layer: without a tracker, and with wandb offline.
The seconds are from the signal to the end of the process.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
ENDLESS = ("model=minilm", "attack.steps=100000", "attack.restarts=20")


def seconds_to_end(settings: list[str], wait: float) -> float:
    """One run, interrupted `wait` seconds after its first record."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        command = [sys.executable, "-m", "robust_attn", *settings, f"hydra.run.dir={folder}"]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        silent = subprocess.DEVNULL
        with subprocess.Popen(command, cwd=place, env=environment, stdout=silent, stderr=silent) as process:
            records = folder / "records.jsonl"
            while process.poll() is None and not (records.exists() and records.stat().st_size):
                time.sleep(0.02)
            time.sleep(wait)
            process.send_signal(signal.SIGINT)
            started = time.monotonic()
            status = process.wait()
            taken = time.monotonic() - started
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        lines = records.read_text(encoding="utf-8").splitlines()
        report = (folder / "report.html").exists()
    if (status, summary["status"], len(lines), report) != (1, "interrupted", summary["records"], True):
        raise RuntimeError(f"status {status}, {len(lines)} records, report {report}, summary {summary}")
    return taken


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=5)
    parser.add_argument("settings", nargs="*", default=list(ENDLESS))
    options = parser.parse_args()
    waits = random.Random(0)
    for tracker in ("none", "wandb"):
        found = [
            seconds_to_end([*options.settings, f"tracker={tracker}"], waits.uniform(0.2, 1.5))
            for _ in range(options.times)
        ]
        print(
            f"tracker={tracker}: median {median(found):.2f} s, longest {max(found):.2f} s of {options.times} interrupts"
        )
    print(f"load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
