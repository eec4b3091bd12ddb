"""Records of an attack through a classifier: what became of the prediction, and of the change at every layer."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.budget import Budget
from robust_attn.certificates.layer import certify_batch
from robust_attn.data.rows import Origin
from robust_attn.models.selfcheck import relative_difference
from robust_attn.observation import observe
from robust_attn.pipeline.checks import check_fields
from robust_attn.pipeline.flips import FlipHunt, FlipOptions, Flips, flip_by, typed_rows
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject, generator_for, layer_estimate
from robust_attn.pipeline.parts import budget_part, scale_part
from robust_attn.pipeline.promises import Promised, PromiseOptions, promised, verdict_on
from robust_attn.records.kinds import LayerRecord, PredictionRecord, Record
from robust_attn.records.parts import Attacked
from robust_attn.through.classifier import Classifier, Trace
from robust_attn.through.readings import Reading, readings
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError

AGREEMENT = 1e-6
"""Largest relative difference between a layer's output in the model and the layer alone on the same measure."""


NOBODY = "none"
"""The name of the attack that is none."""
NO_MORE, NO_PROMISES = FlipOptions((), steps=6, restarts=0), PromiseOptions()


@dataclass(frozen=True)
class LayerAt:
    """One layer while one sample is read."""

    layer: int
    origin: Origin


@dataclass(frozen=True)
class ThroughModel:
    """Attack every sample within the budget, watch all layers, look for the nearest flips, and certify the prediction.

    Of the ways to flip, those in `flips` are tried, and the attack itself where it is another one.
    """

    attack: Attack
    budget: Budget
    accuracy: float = 0.05
    flips: FlipOptions = NO_MORE
    promises: PromiseOptions = NO_PROMISES

    def records(
        self,
        classifier: Classifier,
        batch: torch.Tensor | Sequence[Reading],
        layers: Sequence[int],
        options: CertificateOptions,
        *,
        seed: int,
    ) -> Iterator[Record]:
        """For each sample one record of the prediction and one of every layer."""
        for reading in readings(batch) if isinstance(batch, torch.Tensor) else batch:
            victim = Victim.of(classifier, classifier.measure(reading.batch))
            generator = generator_for(seed, "through", reading.origin.sample)
            found = victim.strongest(self.attack, self.budget, generator)
            attacked = None if self.attack.name == NOBODY else found
            yield self.prediction(victim, reading, options, seed=seed, attacked=attacked)
            if layers:
                yield from self._layers(victim, found, layers, options, reading.origin)

    def prediction(
        self,
        victim: Victim,
        reading: Reading,
        options: CertificateOptions,
        *,
        seed: int,
        attacked: Perturbed | None = None,
    ) -> PredictionRecord:
        """What is proved, then the nearest flips, which begin where the proof is weakest; `attacked` is told beside."""
        begin, rows = time.perf_counter(), typed_rows(victim, reading.ids)
        generator = generator_for(seed, "smoothing", reading.origin.sample)
        proved = promised(
            victim.classifier, victim.base, rows,
            budget=self.budget, asked=self.promises, options=options, generator=generator,
        )  # fmt: skip
        flips = self._flips(victim, reading, proved, seed)
        return PredictionRecord(
            **subject_of(victim, origin=reading.origin).heading(0, victim.base.length),
            **_input_fields(victim, reading),
            budget=budget_part(self.budget),
            scale=scale_part(self.budget, victim.base.sample(0)),
            attack=self.attack.name,
            **({} if attacked is None else _attacked_fields(attacked)),
            flip_radius=flips.radii,
            flip=flips.search,
            typed=flips.typed,
            certified_radius=proved.radii,
            failure_probability=proved.failure_probability,
            shares=proved.shares,
            proof=proved.proof,
            smoothed=proved.smoothed,
            verdict=verdict_on(flips.radii, proved.radii, self.promises.which),
            seconds=time.perf_counter() - begin,
        )

    def _flips(self, victim: Victim, reading: Reading, proved: Promised, seed: int) -> Flips:
        """By every way asked for, and by the attack itself."""
        sample = reading.origin.sample
        splits = self.attack.moving is not None
        named = ("move", "split") if splits else ("move",) if self.attack.name == "move" else ()
        ways = tuple(dict.fromkeys((*self.flips.which, *named)))
        directions = () if proved.direction is None else (proved.direction,)
        options = replace(self.flips, which=ways, accuracy=self.accuracy)
        split = self.attack if splits else None
        found = FlipHunt(victim, reading.ids, self.budget, options, seed, sample, directions, split).flips()
        if named or self.attack.name == NOBODY:
            return found
        generator = generator_for(seed, "flip", sample)
        flip = flip_by(self.attack, victim, self.budget, generator, accuracy=self.accuracy)
        search = replace(found.search, radii_tried=found.search.radii_tried + flip.tried)
        return replace(found, radii={**found.radii, self.attack.name: flip.radius}, search=search)

    def _layers(
        self, victim: Victim, found: Perturbed, layers: Sequence[int], options: CertificateOptions, origin: Origin
    ) -> Iterator[Record]:
        traces = victim.classifier.trace(found.base), victim.classifier.trace(found.measure)
        for layer in layers:
            yield self._layer(victim, found, traces, LayerAt(layer, origin), options)

    def _layer(
        self, victim: Victim, found: Perturbed, traces: tuple[Trace, Trace], at: LayerAt, options: CertificateOptions
    ) -> Record:
        """The change that arrives, the change that leaves, and the certificate of the layer for exactly that change."""
        (clean, perturbed), index = traces, at.layer
        layer = victim.classifier.model.layer(index)
        before, after = clean.inputs[index], perturbed.inputs[index]
        change = float(self.budget.norm((after.points - before.points).double(), before))
        arrived = type(self.budget)(change, layer.input_radius)
        observation = observe(layer, before, after.points, arrived)
        agreement = relative_difference(layer(after), perturbed.outputs[index])
        if not agreement <= max(AGREEMENT, torch.finfo(layer.dtype).eps ** 0.5):
            raise UserError(f"layer {index} alone differs from the model's own pass by {agreement:.1e} relative.")
        job = LayerJob(subject_of(victim, index, at.origin), layer, before)
        weights = arrived.weights(before)
        estimate = None if options.deterministic else layer_estimate(job, weights, options, split=False)
        (certificate,) = certify_batch(layer, before, arrived, lipschitz=estimate)
        result = AttackResult(self.attack.name, 1, observation, (), 0, arrived)
        fields = check_fields(job, 0, arrived, certificate, lipschitz=estimate, result=result)
        return LayerRecord(
            **fields | {"tokens": victim.base.length, "copies": _copies(found)},
            agreement=agreement,
            smallest_mass=float(found.base.masses.min()),
            input_budget=budget_part(self.budget),
        )


def subject_of(victim: Victim, layer: int | None = None, origin: Origin | None = None) -> Subject:
    """The classifier as a whole, or one of its layers; while it reads one sample, where that is told."""
    model = victim.classifier.model
    return Subject(model.name, model.origin.label, layer, origins=() if origin is None else (origin,))


def _input_fields(victim: Victim, reading: Reading) -> dict[str, Any]:
    """What was read, and what the classifier says to it."""
    tokenizer, ids = victim.classifier.model.tokenizer, reading.ids
    spelled = (
        None if ids is None or tokenizer is None else tuple(str(tokenizer.decode([each])) for each in ids.tolist())
    )
    return {
        "predicted": victim.label,
        "margin": -victim.unperturbed().margin,
        "text": None if ids is None or tokenizer is None else str(tokenizer.decode(ids.tolist())),
        "spelled": spelled,
    }


def _attacked_fields(found: Perturbed) -> dict[str, Any]:
    return {
        "copies": _copies(found),
        "smallest_mass": float(found.base.masses.min()),
        "attacked": Attacked(predicted=found.prediction, margin=-found.margin, flipped=found.flipped),
    }


def _copies(found: Perturbed) -> int:
    """An attack that may split tokens counts copies only where the strongest perturbation found did."""
    return found.base.length // max(1, int(found.base.positions.unique().numel()))
