"""Layer after layer of a model: what arrives at each, handed to whatever makes records of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import torch

from robust_attn.attention.layer import AttentionLayer
from robust_attn.budget import BUDGETS, Budget, TokenRadius, Wasserstein
from robust_attn.certificates.followed import Following
from robust_attn.data.source import LayerInputs, Source, expect_readable, read_ahead, read_groups
from robust_attn.models import AttentionModel, load_model
from robust_attn.pipeline.abreast import abreast, one_thread_each
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject, generator_for
from robust_attn.predictions.memory import kept_memory
from robust_attn.records.kinds import Record
from robust_attn.runs.background import start_background
from robust_attn.runs.memory import most_that_fit, require_memory
from robust_attn.types import UserError, counted
from robust_attn.work import Asked, Work, told_as

SMALL = 1024
"""Atoms of all samples together up to which layers are worked on abreast, each by one thread."""
LayerRecords = Callable[[LayerJob], Iterator[Record]]


def loaded(work: Work) -> AttentionModel:
    """The model of the settings, and a word about it to the desk; data that cannot be read are told of before.

    Those that take time to read are read meanwhile.
    """
    settings, desk = work.settings, work.desk
    source = settings.data.made()
    expect_readable(source, settings.task.samples(settings.samples))
    desk.begin(f"loading {settings.model.name}")
    start_background(partial(read_ahead, source))
    with one_thread_each(True):  # small products, which wait for one another where others work on the same machine
        model = load_model(
            settings.model.name,
            settings.model.weights,
            tokenizer=settings.model.tokenizer,
            dtype=getattr(torch, settings.dtype),
            seed=settings.seed,
            sizes=settings.model.sizes,
            device=settings.device,
        )
    origin = model.origin
    desk.origin(origin.label, origin.sha256, origin.note)
    if origin.note:
        desk.tell(f"NOTE: {origin.note}", loud=True)
    desk.tell(
        f"{model.name} ({origin.label}): {counted(model.layers, 'attention layer')}, each checked against the model's "
        f"own forward pass (largest relative difference {max(model.differences):.1e})"
    )
    if model.hashes_words:
        desk.tell("random weights without a tokenizer: words of a text are hashed to token ids")
    return model


def chosen_layers(work: Work, model: AttentionModel) -> tuple[int, ...]:
    """The layers of the settings, each known to be there; all of them if none are named."""
    layers = work.settings.layers_of(model.layers)
    for layer in layers:
        model.layer(layer)
    return layers


def each_layer(
    work: Work,
    records: LayerRecords,
    *,
    lengths: Sequence[int] | None = None,
    source: Source | None = None,
    batch: tuple[int, int] | None = None,
) -> Iterator[Record]:
    """Records of every chosen layer at every length, of the settings' own data unless told otherwise.

    `batch` is how many samples are certified at once, and as how many atoms a token is written: what does not fit into
    memory is refused before it begins.
    """
    settings, desk = work.settings, work.desk
    model = loaded(work)
    source = settings.data.made() if source is None else source
    lengths = [settings.tokens] if lengths is None else lengths
    layers, samples = chosen_layers(work, model), settings.task.samples(settings.samples)
    only = chosen_samples(settings)
    desk.begin(settings.task.name, layers=len(layers) * len(lengths), samples=len(only) if only else samples)
    heads = max(model.layer(layer).heads for layer in layers)
    together, copies = (samples, 1) if batch is None else batch
    together = 1 if only else together
    for place, length in enumerate(lengths):
        require_memory(together, copies * length, heads)
        atoms = together * copies * length
        small = model.device.type == "cpu" and atoms <= SMALL
        with one_thread_each(small):
            groups = _groups(work, model, layers, length, source, shown=max(lengths[:place], default=0))
        title = f"{settings.task.name}, layer {{}}, {counted(length, 'token')}"

        with one_thread_each(small) as threads:
            workers = min(threads, most_that_fit(together, copies * length, heads))
            at = partial(_layer_records, work, model, records, groups)
            for found in abreast([partial(at, layer, title=title.format(layer)) for layer in layers], workers):
                yield from found
                desk.end_layer()


def _layer_records(
    work: Work,
    model: AttentionModel,
    records: LayerRecords,
    groups: Sequence[LayerInputs],
    layer: int,
    *,
    title: str,
) -> Iterator[Record]:
    """Records of one layer on every group of inputs; of chosen samples, each by itself, where these are asked for."""
    only = chosen_samples(work.settings)
    work.desk.begin_layer(title)
    with kept_memory():
        for group in groups:
            subject = Subject(model.name, model.origin.label, layer, origins=group.origins)
            job = LayerJob(subject, model.layer(layer), group.measures[layer], model.max_tokens)
            with told_as("budget"):
                for part in [job] if only is None else _alone(job, only):
                    yield from records(part)


def chosen_samples(settings: Asked) -> tuple[int, ...] | None:
    """The samples of the settings, each known to be there; None for all of them together."""
    count = settings.task.samples(settings.samples)
    if settings.only is not None and not (settings.only and max(settings.only) < count):
        raise UserError(f"only must name some of the samples 0 to {count - 1}, got {list(settings.only)}.")
    return settings.only


def _alone(job: LayerJob, only: Sequence[int]) -> list[LayerJob]:
    """The chosen samples one by one: nothing that is drawn or stopped for one depends on which others are chosen."""
    return [part for part in job.single_samples() if part.subject.origins[0].sample in only]


def _groups(
    work: Work, model: AttentionModel, layers: Sequence[int], length: int, source: Source, *, shown: int
) -> tuple[LayerInputs, ...]:
    """What arrives at each layer, samples of equal length together, with their text left at the desk."""
    samples = work.settings.task.samples(work.settings.samples)
    generator = generator_for(work.settings.seed, "data", length)
    groups = read_groups(source, model, layers=layers, tokens=length, samples=samples, generator=generator, shown=shown)
    for group in groups:
        work.desk.inputs(_length(group, length), _spelled(group))
    if any(origin.cut is not None for group in groups for origin in group.origins):
        work.desk.tell(_said_of_rows(groups, length))
    return groups


def _said_of_rows(groups: Sequence[LayerInputs], most: int) -> str:
    """How long the rows are, and what was done to fit them in."""
    origins = [origin for group in groups for origin in group.origins]
    lengths = sorted(_length(group, most) for group in groups)
    cut = sum(bool(origin.cut) for origin in origins)
    fate = f"{cut} of them cut at their end to keep to tokens={most}" if cut else f"none longer than tokens={most}"
    span = f"{lengths[0]} to {lengths[-1]}" if lengths[0] < lengths[-1] else f"{lengths[0]}"
    return f"{counted(len(origins), 'row')} of {span} tokens, {fate}; nothing is padded"


def _length(group: LayerInputs, asked: int) -> int:
    """Tokens of a sample; those of running text and of images go by the number that was asked for."""
    return next(iter(group.measures.values())).length if group.origins and group.spelled else asked


def _spelled(group: LayerInputs) -> Sequence[Sequence[str]] | None:
    """The tokens in words by the number of the sample, nothing for samples that are not in the group."""
    if group.spelled is None or not group.origins:
        return group.spelled
    found = {origin.sample: words for origin, words in zip(group.origins, group.spelled, strict=True)}
    return [found.get(sample, []) for sample in range(max(found) + 1)]


def certificate_options(settings: Asked) -> CertificateOptions:
    """How certificates are computed in one run: where no seed is given one is drawn, for all of the run."""
    asked = settings.certificate
    options = CertificateOptions(
        asked.deterministic,
        asked.failure_probability,
        asked.lanczos_steps,
        pairs=asked.pairs,
        following=Following(asked.samples, asked.failure_probability) if asked.samples else None,
    )
    return options if asked.seed is None else replace(options, seed=asked.seed)


def budget_at(settings: Asked, layer: AttentionLayer | None = None) -> Budget:
    """The budget of the settings. Where the support is that of the normalisation, the layer knows it."""
    asked = settings.budget
    with told_as("budget"):
        return BUDGETS[asked.name](float(asked.radius), _support(asked.support, layer))


def expect_wasserstein(budget: Budget) -> Wasserstein:
    """The budget, in which alone pieces of a token share what it has."""
    if not isinstance(budget, Wasserstein):
        raise UserError(f"Pieces of a token share its budget in a Wasserstein budget alone, not in {budget.kind}.")
    return budget


def _support(value: float | str, layer: AttentionLayer | None) -> float | TokenRadius | None:
    """`auto` leaves it to the attack: slivers stay within the tokens' own largest norm, nothing else is limited."""
    match value:
        case "auto":
            return None
        case "tokens":
            return TokenRadius()
        case "normalization":
            if layer is None or layer.input_radius is None:
                raise UserError("budget.support=normalization needs a layer with a normalisation in front of it.")
            return layer.input_radius
        case _:
            return float(value)
