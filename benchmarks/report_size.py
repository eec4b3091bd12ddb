"""Size of a report over many records, what it costs to write, and how long a browser takes to open it.

    python -m benchmarks.report_size                   # 10 000 records
    python -m benchmarks.report_size --records 1000

The records are made up from one real one: an attack on a layer of MiniLM that this script runs. Layer and sample number
are set, and every change, gain and motion is multiplied by a random factor, the same for what was observed and what
was certified, so that verdicts stay true. Times are ratios taken in one run: writing to parsing the records, opening
to opening an empty page (medians of interleaved repeats). The browser needs playwright and a chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import robust_attn as ra
from benchmarks.measuring import timed
from robust_attn.data.source import Prose, read_inputs
from robust_attn.pipeline.checks import attack_records
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject, generator_for
from robust_attn.records.store import load_run
from robust_attn.report import write_report

LAYERS, TOKENS, REPEATS = 24, 32, 5
LIMIT = 3_000_000
EMPTY = "<!doctype html><title>empty</title>"
SCALED = {"input_change", "output_change", "gain", "w2_input", "w2_output", "w2_gain", "lower", "upper", "constant"}


def real_record() -> tuple[dict[str, Any], list[list[str]] | None]:
    """A split attack on layer 3 of MiniLM, and the tokens of its sample."""
    model = ra.load_model("minilm")
    source = {"layers": [3], "tokens": TOKENS, "samples": 1, "generator": generator_for(0)}
    inputs = read_inputs(Prose(), model, **source)
    job = LayerJob(Subject(model.name, model.origin.label, 3), model.layer(3), inputs.measures[3])
    (record,) = attack_records(job, ra.MassSplit(steps=10), ra.Wasserstein(0.01), CertificateOptions(), seed=0)
    return record.to_json(), inputs.spelled


def varied(value: Any, factor: float, name: str = "") -> Any:
    """The same record with its changes multiplied; everything else as it is."""
    if isinstance(value, dict):
        return {key: varied(item, factor, key) for key, item in value.items()}
    if isinstance(value, list):
        inside = "output_change" if name in ("convergence", "rms", "apart", "farthest") else ""
        return [varied(item, factor, inside) for item in value]
    return value * factor if name in SCALED and isinstance(value, float) else value


def write_records(folder: Path, count: int) -> None:
    """`count` records in `folder`, as a run that was killed leaves them: no summary is made up."""
    record, spelled = real_record()
    draw = random.Random(0)
    samples = -(-count // LAYERS)
    with (folder / "records.jsonl").open("w", encoding="utf-8") as file:
        for index in range(count):
            made = varied(record, draw.lognormvariate(0.0, 0.3))
            made |= {"layer": index % LAYERS, "sample": index // LAYERS, "tightness": draw.uniform(0.2, 0.99)}
            file.write(json.dumps(made) + "\n")
    (folder / ".hydra").mkdir(exist_ok=True)
    (folder / ".hydra" / "config.yaml").write_text("task: {name: attack}\n", encoding="utf-8")
    inputs = {str(TOKENS): None if spelled is None else spelled * samples}
    (folder / "inputs.json").write_text(json.dumps(inputs), encoding="utf-8")
    (folder / ".hydra").mkdir()
    (folder / ".hydra" / "config.yaml").write_text("task:\n  name: attack\n", encoding="utf-8")


def opening_times(report: Path, empty: Path) -> tuple[float, float, list[str]]:
    """Median seconds until the load event of both pages, and what the browser complained about."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("ROBUST_ATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    trouble: list[str] = []
    times: dict[Path, list[float]] = {report: [], empty: []}
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        for path in [report, empty] * (REPEATS + 1):
            page = browser.new_page()
            page.on("console", lambda message: trouble.append(message.text))
            page.on("pageerror", lambda error: trouble.append(str(error)))
            started = time.perf_counter()
            page.goto(path.as_uri())
            times[path].append(time.perf_counter() - started)
            page.close()
        browser.close()
    opened, nothing = (statistics.median(seen[1:]) for seen in times.values())  # the first of each warms up
    return opened, nothing, trouble


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--keep", type=Path, help="an empty folder for the run, instead of one that is removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.keep or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        write_records(folder, options.records)
        _, parsing = timed(lambda: load_run(folder))
        report, writing = timed(lambda: write_report(folder))
        size, records = report.stat().st_size, (folder / "records.jsonl").stat().st_size
        print(f"{options.records} records made up from one real one, {records / 1e6:.1f} MB of records.jsonl")
        print(f"report.html: {size / 1e6:.2f} MB ({'under' if size < LIMIT else 'OVER'} the limit of 3 MB)")
        print(f"writing it (figures included): {writing / parsing:.1f} times parsing the records ({parsing:.1f} s CPU)")
        empty = folder / "empty.html"
        empty.write_text(EMPTY, encoding="utf-8")
        opened, nothing, trouble = opening_times(report, empty)
        print(
            f"opening it in chromium: {opened / nothing:.1f} times an empty page ({opened:.2f} s and {nothing:.2f} s)"
        )
        print(f"console messages and errors: {len(trouble)} {trouble[:3] or ''}")


if __name__ == "__main__":
    main()
