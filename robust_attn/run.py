"""One run: load, attack and certify layer by layer, write every record at once, report. The place where I/O happens."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from robust_attn.attacks.discrete import RepeatTokens
from robust_attn.attacks.hygiene import hygiene_warnings
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.build import (
    STUDIES,
    attack_from,
    budget_from,
    lipschitz_study_from,
    source_from,
    study_from,
    through_from,
)
from robust_attn.config import Settings
from robust_attn.data.source import Gaussian, layer_inputs
from robust_attn.environment import environment, peak_memory_gb
from robust_attn.experiments.adversarial_layer import AdversarialLayer
from robust_attn.experiments.figures import write_figures
from robust_attn.experiments.outcome import ExperimentOutcome, outcome_of
from robust_attn.experiments.tightness import Tightness
from robust_attn.models import AttentionModel, load_model
from robust_attn.pipeline import (
    CertificateOptions,
    LayerJob,
    attack_records,
    certify_records,
    generator_for,
    worst_case_records,
)
from robust_attn.record import Subject, worst_verdict
from robust_attn.report import write_report
from robust_attn.run_folder import ENVIRONMENT, SUMMARY, RunFolder
from robust_attn.terminal import certificate_table, closing_table, lipschitz_table, panel_table, progress_bar
from robust_attn.through.classifier import TextClassifier, classifier_of
from robust_attn.through.inputs import batch_of
from robust_attn.through.records import ThroughModel
from robust_attn.through.repeat import RepeatTask
from robust_attn.through.tables import through_tables
from robust_attn.tracking import Tracker, make_tracker
from robust_attn.types import ExitStatus, Outcome, UserError, Verdict


def execute(settings: Settings, config: dict[str, Any], path: Path, console: Console) -> Outcome:
    """Do the task in a folder of its own. Whatever happens, what was recorded stays and the summary says the end."""
    started = time.monotonic()
    folder = RunFolder.claim(path)
    tracker = make_tracker(settings.tracker["name"], settings.tracker.get("mode", "offline"), _project(settings))
    tracker.start(path, config, path.name, path.parent.name)
    records: list[dict[str, Any]] = []
    outcome, state = Outcome(ExitStatus.FAILED, "stopped before it ended"), "failed"
    try:
        produce = _study_records if settings.task["name"] in STUDIES else _records
        for record in produce(settings, folder, console):
            folder.append(record)
            records.append(record)
            tracker.record(record)
        outcome, state = _judged(records), "complete"
    except UserError as error:
        outcome = Outcome(ExitStatus.WRONG_CONFIGURATION, str(error))
    except KeyboardInterrupt:
        outcome, state = Outcome(ExitStatus.FAILED, "interrupted; what was known by then is recorded"), "interrupted"
    except Exception as error:
        outcome = Outcome(ExitStatus.FAILED, f"{type(error).__name__}: {error}")
        raise
    finally:
        found = outcome_of(settings.task, records)
        summary = _summary(settings, records, outcome, state, found=found, seconds=time.monotonic() - started)
        trouble = _close(folder, summary, records, found, tracker=tracker, console=console)
    if trouble is not None and outcome.status is ExitStatus.OK:
        return Outcome(ExitStatus.FAILED, trouble)
    return outcome


def _study_records(settings: Settings, folder: RunFolder, console: Console) -> Iterator[dict[str, Any]]:
    """Every record of a study of a single head, for which no model is loaded."""
    folder.write(ENVIRONMENT, environment(weights="given", sha256={}, note=None, dtype="float64"))
    with console.status(settings.task["name"]):
        yield from study_from(settings.task).records(seed=settings.seed)


def _records(settings: Settings, folder: RunFolder, console: Console) -> Iterator[dict[str, Any]]:
    """Every record of the task, in order of layers, with a bar over the layers."""
    with console.status(f"loading {settings.model['name']}"):
        model = load_model(
            settings.model["name"],
            settings.model["weights"],
            dtype=getattr(torch, settings.dtype),
            seed=settings.seed,
            sizes=settings.model["sizes"],
        )
    origin = model.origin
    folder.write(
        ENVIRONMENT,
        environment(weights=origin.label, sha256=origin.sha256, note=origin.note, dtype=settings.dtype),
    )
    if origin.note:
        console.print(f"NOTE: {origin.note}", style="bold yellow", markup=False, highlight=False)
    difference = max(model.differences)
    console.print(
        f"{model.name} ({origin.label}): {model.layers} attention layers, each checked against the model's own forward "
        f"pass (largest relative difference {difference:.1e})",
        markup=False,
        highlight=False,
    )
    layers = tuple(range(model.layers)) if settings.layers is None else settings.layers
    for layer in layers:
        model.layer(layer)
    produce = _through_records if settings.task["name"] in ("through_model", "repeat_tokens") else _task_records
    yield from produce(settings, model, layers, console)


def _through_records(
    settings: Settings, model: AttentionModel, layers: tuple[int, ...], console: Console
) -> Iterator[dict[str, Any]]:
    """Every record of a task that attacks a classifier as a whole, one sample after another."""
    classifier, attack, seed = classifier_of(model), through_from(settings.attack), settings.seed
    source = source_from(settings.data)
    batch = batch_of(source, classifier, tokens=settings.tokens, samples=settings.samples)
    with console.status(settings.task["name"]):
        if settings.task["name"] == "through_model":
            task = ThroughModel(attack, budget_from(settings.budget), settings.task["accuracy"])
            options = CertificateOptions(**settings.certificate)
            yield from task.records(classifier, batch, layers, options, seed=seed)
        elif isinstance(classifier, TextClassifier):
            repeat = RepeatTokens(settings.task["repeats"], settings.task["candidates"])
            yield from RepeatTask(repeat, attack).records(classifier, batch, layers, seed=seed)
        else:
            raise UserError(f"{model.name} reads no tokens that could be repeated; take model=injection.")


def _task_records(
    settings: Settings, model: AttentionModel, layers: tuple[int, ...], console: Console
) -> Iterator[dict[str, Any]]:
    lengths = settings.task["lengths"] if settings.task["name"] == "lipschitz" else [settings.tokens]
    with progress_bar(console) as progress:
        bar = progress.add_task(settings.task["name"], total=len(layers) * len(lengths))
        for length in lengths:
            for job in _jobs(settings, model, layers, length):
                progress.update(bar, description=f"{settings.task['name']}, layer {job.subject.layer}, {length} tokens")
                yield from _layer_records(settings, job)
                progress.advance(bar)


def _jobs(settings: Settings, model: AttentionModel, layers: tuple[int, ...], length: int) -> Iterator[LayerJob]:
    """The chosen layers with their inputs; a worst-case search brings its own tokens."""
    generator = generator_for(settings.seed, "data", length)
    source = Gaussian(1.0) if settings.task["name"] == "worst_case" else source_from(settings.data)
    samples = _samples(settings)
    inputs = layer_inputs(source, model, layers=layers, tokens=length, samples=samples, generator=generator)
    for layer in layers:
        yield LayerJob(Subject(model.name, model.origin.label, layer), model.layer(layer), inputs[layer])


def _layer_records(settings: Settings, job: LayerJob) -> Iterator[dict[str, Any]]:
    options, seed = CertificateOptions(**settings.certificate), settings.seed
    match settings.task["name"]:
        case "attack":
            attack, budget = attack_from(settings.attack), budget_from(settings.budget, job.layer)
            yield from attack_records(job, attack, budget, options, seed=seed)
        case "certify":
            budget = budget_from(settings.budget, job.layer)
            heads, tolerance = settings.task["heads"], settings.task["tolerance"]
            yield from certify_records(job, budget, options, heads=heads, seed=seed, tolerance=tolerance)
        case "lipschitz":
            yield from lipschitz_study_from(settings.task).records(job, options, seed=seed)
        case "worst_case":
            task = settings.task
            search = WorstCaseSearch(_radius(settings, job), task["steps"], task["restarts"], masses=task["masses"])
            yield from worst_case_records(job, search, settings.tokens, seed=seed)
        case "tightness":
            yield from Tightness(settings.budget["kind"], settings.task["radii"]).records(job, options, seed=seed)
        case "adversarial_layer":
            yield from AdversarialLayer(settings.task["lengths"], settings.task["radius"]).records(job)
        case other:
            raise UserError(f"There is no task {other!r}.")


def _samples(settings: Settings) -> int:
    """Windows of text where the task says how many, else the samples of the run."""
    return int(settings.task.get("windows", settings.samples))


def _radius(settings: Settings, job: LayerJob) -> float:
    radius = settings.task["radius"]
    if radius is None:
        radius = job.layer.input_radius
    if radius is None:
        raise UserError(f"Layer {job.subject.layer} has no normalisation in front of it; give task.radius=...")
    return float(radius)


def _judged(records: list[dict[str, Any]]) -> Outcome:
    match worst_verdict(records):
        case Verdict.VIOLATED:
            return Outcome(ExitStatus.VIOLATED, "an observed output change exceeds its certificate")
        case Verdict.UNKNOWN:
            return Outcome(ExitStatus.FAILED, "a value was not finite, so nothing can be said about it")
        case _:
            return Outcome(ExitStatus.OK)


def _summary(
    settings: Settings,
    records: list[dict[str, Any]],
    outcome: Outcome,
    state: str,
    *,
    found: ExperimentOutcome,
    seconds: float,
) -> dict[str, Any]:
    verdicts = [record["verdict"] for record in records if "verdict" in record]
    return {
        "schema": 1,
        "task": settings.task["name"],
        "status": state,
        "exit_status": int(outcome.status),
        "message": outcome.message,
        "model": records[0]["model"] if records else settings.model["name"],
        "weights": records[0]["weights"] if records else None,
        "attack": settings.attack["name"] if settings.task["name"] == "attack" else None,
        "budget": settings.budget,
        "tokens": settings.tokens,
        "samples": _samples(settings),
        "records": len(records),
        "verdicts": {verdict: verdicts.count(verdict) for verdict in sorted(set(verdicts))},
        "exponents": found.exponents,
        "radius_exponents": found.radius_exponents,
        "findings": found.findings,
        "warnings": hygiene_warnings(records) if settings.task["name"] == "attack" else [],
        "seconds": round(seconds, 3),
        "peak_memory_gb": round(peak_memory_gb(), 3),
    }


def _close(
    folder: RunFolder,
    summary: dict[str, Any],
    records: list[dict[str, Any]],
    found: ExperimentOutcome,
    *,
    tracker: Tracker,
    console: Console,
) -> str | None:
    """Summary first, then what is made from it; a report that cannot be made costs no result, and is said."""
    folder.write(SUMMARY, summary)
    trouble = _show(folder, records, found, console) if records else None
    for warning in summary["warnings"]:
        console.print(f"WARNING: {warning}", style="bold yellow", markup=False, highlight=False)
    console.print(
        f"{summary['records']} records in {summary['seconds']:.1f} s, peak memory {summary['peak_memory_gb']:.2f} GB",
        markup=False,
        highlight=False,
    )
    tracker.finish(summary, folder.path, failed=summary["status"] != "complete")
    return trouble


def _show(folder: RunFolder, records: list[dict[str, Any]], found: ExperimentOutcome, console: Console) -> str | None:
    """Tables, figures and report; the sentence that says what went wrong, if something did."""
    for table in _tables(records, found):
        console.print(table)
    try:
        write_figures(found.panels, folder.path / "figures")
        report = write_report(folder.path)
    except Exception as error:
        return f"the records are complete, but the report could not be written: {type(error).__name__}: {error}"
    console.print(f"report: {report}", markup=False, highlight=False, soft_wrap=True)
    return None


def _tables(records: list[dict[str, Any]], found: ExperimentOutcome) -> list[Table]:
    if found.exponents is not None:
        tables = [lipschitz_table(found.exponents, "tokens")]
        return tables + ([lipschitz_table(found.radius_exponents, "scaled_to")] if found.radius_exponents else [])
    if found.panels:
        return [panel_table(panel) for panel in found.panels]
    if through := through_tables(records):
        return through
    return [certificate_table(records) if "norms" in records[0] else closing_table(records)]


def _project(settings: Settings) -> str:
    return str(settings.tracker.get("project", "robust_attn"))
