"""Records of repeated tokens: what was typed, what it did at every layer, and what a continuous attack would do."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from robust_attn.attacks.attack import Attack
from robust_attn.attacks.discrete import RepeatTokens, Repetition, best_free_masses
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rounding import evaluation_error
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import verdict
from robust_attn.certificates.measures import certify_measures
from robust_attn.observation import wasserstein_distance
from robust_attn.pipeline.jobs import generator_for
from robust_attn.pipeline.parts import bound_parts, certified_part
from robust_attn.pipeline.predictions import subject_of
from robust_attn.records.kinds import Record, RepeatLayerRecord, RepeatRecord
from robust_attn.records.parts import Continuous, Distances, Typed
from robust_attn.through.classifier import TextClassifier, Trace
from robust_attn.through.victim import Perturbed, Victim

FREE_STEPS = 20


@dataclass(frozen=True)
class RepeatedTokens:
    """Repeat tokens of every sample; `continuous` attacks with the W2 distance that the best text has."""

    repeat: RepeatTokens
    continuous: Attack

    def records(
        self, classifier: TextClassifier, batch: Iterable[Int[Tensor, " n"]], layers: Sequence[int], *, seed: int
    ) -> Iterator[Record]:
        """For each sample one record per repetition, then one per layer for the text with the largest loss."""
        for sample, ids in enumerate(batch):
            victim = Victim.of(classifier, classifier.measure(ids[None]))
            typed = self.repeat(classifier.logits, classifier.measure, ids, victim.label, may_repeat=classifier.typed)
            for done, repetition in enumerate(typed, start=1):
                yield _typed_record(victim, repetition, done, sample)
            best = max(typed, key=lambda repetition: _read(victim, repetition).loss)
            yield from self._layer_records(victim, best, layers, sample=sample, seed=seed)

    def _layer_records(
        self, victim: Victim, best: Repetition, layers: Sequence[int], *, sample: int, seed: int
    ) -> Iterator[Record]:
        """The change that the typed text makes at each layer beside that of the continuous attack."""
        classifier = victim.classifier
        typed = classifier.measure(best.ids[None])
        budget = Wasserstein(uniform_distance(victim.base.points[0], typed.points[0]))
        found = victim.strongest(self.continuous, budget, generator_for(seed, "repeat", sample))
        clean, read = classifier.trace(victim.base), classifier.trace(typed)
        traces = classifier.trace(found.base), classifier.trace(found.measure)
        for layer in layers:
            yield RepeatLayerRecord(
                **subject_of(victim, layer).heading(sample, victim.base.length),
                repeats=int(best.counts.sum()),
                w2_embeddings=budget.radius,
                **_layer_fields(victim, clean, read, layer),
                continuous=_continuous(self.continuous.name, found, *traces, layer),
            )


def _continuous(attack: str, found: Perturbed, clean: Trace, perturbed: Trace, layer: int) -> Continuous:
    """The continuous attack at the same W2 distance of the embeddings, at one layer."""
    before, after = clean.inputs[layer], perturbed.inputs[layer]
    outputs = clean.outputs[layer], perturbed.outputs[layer]
    return Continuous(
        attack=attack,
        w2_input=float(wasserstein_distance(before.points, after.points, before.masses)),
        w2_output=float(wasserstein_distance(*outputs, before.masses)),
        loss=found.loss,
        flipped=found.flipped,
    )


def _typed_record(victim: Victim, repetition: Repetition, done: int, sample: int) -> Record:
    """A text with `done` repetitions, and the relaxation with as many free ones."""
    model, reader = victim.classifier.model, victim.classifier.logits
    typed = victim.classifier.measure(repetition.ids[None])
    counts = repetition.counts.to(victim.base.points.dtype)
    free = best_free_masses(reader, victim.base, victim.label, counts, steps=FREE_STEPS)
    after = _read(victim, repetition)
    return RepeatRecord(
        **subject_of(victim).heading(sample, victim.base.length),
        repeats=done,
        token=model.tokenizer.decode([int(repetition.ids[repetition.place])]) if model.tokenizer else None,
        place=repetition.place,
        gradient_rank=repetition.rank,
        w2_embeddings=uniform_distance(victim.base.points[0], typed.points[0]),
        prediction={"clean": victim.label, "typed": after.prediction, "free": int(free.logits.argmax())},
        loss=Typed(clean=victim.unperturbed().loss, typed=after.loss, free=free.loss),
        flipped=after.flipped,
        text=model.tokenizer.decode(repetition.ids.tolist()) if model.tokenizer else None,
    )


def _read(victim: Victim, repetition: Repetition) -> Perturbed:
    """The typed text as what the classifier said to it."""
    typed = victim.classifier.measure(repetition.ids[None])
    return Perturbed(typed, typed, repetition.logits[None], victim.label, 0.0)


def _layer_fields(victim: Victim, clean: Trace, typed: Trace, index: int) -> dict[str, Any]:
    """W2 of what arrives and of what leaves, and what any measure at that distance can do at most."""
    layer = victim.classifier.model.layer(index)
    before, after = clean.inputs[index], typed.inputs[index]
    arrives = uniform_distance(before.points[0], after.points[0])
    leaves = uniform_distance(clean.outputs[index][0], typed.outputs[index][0])
    farthest = max(float(before.radius), float(after.radius))
    support = farthest if layer.input_radius is None else max(farthest, layer.input_radius)
    certificate = certify_measures(layer, before, Wasserstein(arrives, support))
    rounding = float(evaluation_error(layer, before) + evaluation_error(layer, after))
    return {
        "typed": Distances(w2_input=arrives, w2_output=leaves),
        "certified": certified_part(certificate),
        "verdict": verdict(leaves, rounding, certificate),
        "bounds": bound_parts(certificate.bounds),
    }


def uniform_distance(first: Float[Tensor, "n d"], second: Float[Tensor, "m d"]) -> float:
    """W2 between the measures with equal masses on n and on m points: every point as lcm(n, m) / n copies."""
    common = math.lcm(len(first), len(second))
    left, right = (points.repeat_interleave(common // len(points), dim=0) for points in (first, second))
    masses = TokenMeasure.uniform(left.double()).masses
    return float(wasserstein_distance(left.double(), right.double(), masses))
