"""From settings to the records of a task: the model and its inputs are loaded, and each layer goes to the pipeline."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.baseline import NoAttack
from robust_attn.attacks.discrete import RepeatTokens
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.attention.measure import TokenMeasure
from robust_attn.build import (
    STUDIES,
    attack_from,
    budget_from,
    certificate_options_from,
    lipschitz_study_from,
    source_from,
    study_from,
    told_as,
)
from robust_attn.config import Settings
from robust_attn.data.settings import Gaussian
from robust_attn.data.source import read_inputs
from robust_attn.experiments.adversarial_layer import AdversarialLayer
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
from robust_attn.record import Subject
from robust_attn.runs.environment import environment
from robust_attn.runs.folder import ENVIRONMENT, RunFolder
from robust_attn.runs.memory import require_memory
from robust_attn.runs.name import ATTACKS_WHOLE_MODEL
from robust_attn.runs.progress import RunBars
from robust_attn.soundness.task import soundness_records
from robust_attn.through.classifier import TextClassifier, classifier_of
from robust_attn.through.inputs import batch_of
from robust_attn.through.records import ThroughModel
from robust_attn.through.repeat import RepeatTask
from robust_attn.types import UserError


def task_records(settings: Settings, folder: RunFolder, bars: RunBars) -> Iterator[dict[str, Any]]:
    """Every record of the task, each as soon as it is known; the facts that they rest on go to the run folder first."""
    name = settings.task["name"]
    produce = _campaign_records if name == "soundness" else _study_records if name in STUDIES else _records
    for record in produce(settings, folder, bars):
        bars.record(record)
        yield record


def samples_of(settings: Settings) -> int:
    """Windows of text where the task says how many, else the samples of the run."""
    return int(settings.task.get("windows", settings.samples))


def _records(settings: Settings, folder: RunFolder, bars: RunBars) -> Iterator[dict[str, Any]]:
    """Every record of a task on a model."""
    model = _loaded(settings, folder, bars)
    layers = tuple(range(model.layers)) if settings.layers is None else settings.layers
    for layer in layers:
        model.layer(layer)
    if settings.task["name"] in ATTACKS_WHOLE_MODEL:
        yield from _through_records(settings, model, layers, bars)
    else:
        yield from _model_records(settings, folder, model, layers, bars)


def _study_records(settings: Settings, folder: RunFolder, bars: RunBars) -> Iterator[dict[str, Any]]:
    """Every record of a study of a single head, for which no model is loaded."""
    folder.write(ENVIRONMENT, environment(weights="given", sha256={}, note=None, dtype="float64"))
    bars.begin(settings.task["name"])
    yield from study_from(settings.task).records(seed=settings.seed)


def _campaign_records(settings: Settings, folder: RunFolder, bars: RunBars) -> Iterator[dict[str, Any]]:
    """Every case of a soundness campaign, which draws its own layers."""
    folder.write(ENVIRONMENT, environment(weights="drawn", sha256={}, note=None, dtype="float64"))
    bars.begin(settings.task["name"], layers=settings.task["cases"])
    for record in soundness_records(settings.task, folder):
        bars.end_layer()
        yield record


def _loaded(settings: Settings, folder: RunFolder, bars: RunBars) -> AttentionModel:
    """The model, and a word about it in the run folder and on the screen."""
    bars.begin(f"loading {settings.model['name']}")
    model = load_model(
        settings.model["name"],
        settings.model["weights"],
        tokenizer=settings.model["tokenizer"],
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
        bars.console.print(f"NOTE: {origin.note}", style="bold yellow", markup=False, highlight=False)
    bars.console.print(
        f"{model.name} ({origin.label}): {model.layers} attention layers, each checked against the model's own forward "
        f"pass (largest relative difference {max(model.differences):.1e})",
        markup=False,
        highlight=False,
    )
    if model.hashes_words:
        bars.console.print("random weights without a tokenizer: words of a text are hashed to token ids")
    return model


def _through_records(
    settings: Settings, model: AttentionModel, layers: tuple[int, ...], bars: RunBars
) -> Iterator[dict[str, Any]]:
    """Every record of a task that attacks a classifier as a whole, one sample after another."""
    classifier, attack, seed = classifier_of(model), attack_from(settings.attack), settings.seed
    source = source_from(settings.data)
    batch = batch_of(source, classifier, tokens=settings.tokens, samples=settings.samples)
    bars.begin(settings.task["name"], samples=settings.samples)
    if settings.task["name"] == "through_model":
        task = ThroughModel(attack, budget_from(settings.budget), settings.task["accuracy"])
        options = certificate_options_from(settings.certificate)
        yield from task.records(classifier, batch, layers, options, seed=seed)
    elif isinstance(classifier, TextClassifier):
        repeat = RepeatTokens(settings.task["repeats"], settings.task["candidates"])
        yield from RepeatTask(repeat, attack).records(classifier, batch, layers, seed=seed)
    else:
        raise UserError(f"{model.name} reads no tokens that could be repeated; take model=injection.")


def _model_records(
    settings: Settings, folder: RunFolder, model: AttentionModel, layers: tuple[int, ...], bars: RunBars
) -> Iterator[dict[str, Any]]:
    """Every record of a task that takes layer after layer."""
    name = settings.task["name"]
    lengths = settings.task["lengths"] if name == "lipschitz" else [settings.tokens]
    bars.begin(name, layers=len(layers) * len(lengths), samples=samples_of(settings))
    attack = attack_from(settings.attack) if name == "attack" else NoAttack()
    heads, options = max(model.layer(layer).heads for layer in layers), certificate_options_from(settings.certificate)
    for length in lengths:
        require_memory(*size_of_certificates(attack, samples_of(settings), length), heads)
        inputs = _inputs(settings, folder, model, layers, length)
        for layer in layers:
            subject = Subject(model.name, model.origin.label, layer)
            job = LayerJob(subject, model.layer(layer), inputs[layer])
            bars.begin_layer(f"{name}, layer {layer}, {length} tokens")
            with told_as("budget"):
                yield from _layer_records(settings, job, options, bars)
            bars.end_layer()


def _inputs(
    settings: Settings, folder: RunFolder, model: AttentionModel, layers: tuple[int, ...], length: int
) -> dict[int, TokenMeasure]:
    """What arrives at each layer, with its text written down; a worst-case search brings its own tokens."""
    generator = generator_for(settings.seed, "data", length)
    source = Gaussian(1.0) if settings.task["name"] == "worst_case" else source_from(settings.data)
    samples = samples_of(settings)
    inputs = read_inputs(source, model, layers=layers, tokens=length, samples=samples, generator=generator)
    folder.add_inputs(length, inputs.spelled)
    return inputs.measures


def _layer_records(
    settings: Settings, job: LayerJob, options: CertificateOptions, bars: RunBars
) -> Iterator[dict[str, Any]]:
    seed = settings.seed
    match settings.task["name"]:
        case "attack":
            attack, budget = attack_from(settings.attack), budget_from(settings.budget, job.layer)
            yield from attack_records(job, attack, budget, options, seed=seed, on_step=bars.step)
        case "certify":
            budget = budget_from(settings.budget, job.layer)
            heads, tolerance = settings.task["heads"], settings.task["tolerance"]
            yield from certify_records(job, budget, options, heads=heads, tolerance=tolerance)
        case "lipschitz":
            yield from lipschitz_study_from(settings.task).records(job, options)
        case "worst_case":
            task = settings.task
            search = WorstCaseSearch(_radius(settings, job), task["steps"], task["restarts"], masses=task["masses"])
            yield from worst_case_records(job, search, settings.tokens, seed=seed)
        case "tightness":
            yield from Tightness(settings.budget["kind"], settings.task["radii"]).records(job, options)
        case "adversarial_layer":
            yield from AdversarialLayer(settings.task["lengths"], settings.task["radius"]).records(job)
        case other:
            raise UserError(f"There is no task {other!r}.")


def size_of_certificates(attack: Attack, samples: int, tokens: int) -> tuple[int, int]:
    """How many samples are certified at once, and with how many atoms each at most."""
    return 1 if attack.own_radius else samples, attack.copies * tokens


def _radius(settings: Settings, job: LayerJob) -> float:
    radius = settings.task["radius"]
    if radius is None:
        radius = job.layer.input_radius
    if radius is None:
        raise UserError(f"Layer {job.subject.layer} has no normalisation in front of it; give task.radius=...")
    return float(radius)
