"""Records of an attack through a classifier: what became of the prediction, and of the change at every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.budget import Budget
from robust_attn.certificates.layer import certify_batch
from robust_attn.models.selfcheck import relative_difference
from robust_attn.observation import observe
from robust_attn.pipeline.checks import check_fields
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject, generator_for, layer_estimate
from robust_attn.pipeline.parts import budget_part
from robust_attn.records.kinds import LayerRecord, PredictionRecord, Record
from robust_attn.records.parts import Attacked, FlipSearch
from robust_attn.through.classifier import Classifier, Trace
from robust_attn.through.flip import Flip, smallest_flip
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError

AGREEMENT = 1e-6
"""Largest relative difference between a layer's output in the model and the layer alone on the same measure."""
RADII = {"mass_split": "split"}
"""What the radius of an attack is called in a record, where that is not the attack's own name."""


@dataclass(frozen=True)
class LayerAt:
    """One layer while one sample is read."""

    layer: int
    sample: int


@dataclass(frozen=True)
class ThroughModel:
    """Attack every sample within the budget, watch all layers, and look for the radius that flips its prediction."""

    attack: Attack
    budget: Budget
    accuracy: float = 0.05

    def records(
        self,
        classifier: Classifier,
        batch: torch.Tensor,
        layers: Sequence[int],
        options: CertificateOptions,
        *,
        seed: int,
    ) -> Iterator[Record]:
        """For each sample one record of the prediction and one of every layer."""
        for sample in range(len(batch)):
            victim = Victim.of(classifier, classifier.measure(batch[sample : sample + 1]))
            found = victim.strongest(self.attack, self.budget, generator_for(seed, "through", sample))
            yield self._prediction(victim, found, seed, sample, text_of(classifier, batch[sample]))
            traces = classifier.trace(found.base), classifier.trace(found.measure)
            for layer in layers:
                yield self._layer(victim, found, traces, LayerAt(layer, sample), options)

    def _prediction(self, victim: Victim, found: Perturbed, seed: int, sample: int, text: str | None) -> Record:
        clean = victim.unperturbed()
        moving, flip = self._flips(victim, seed, sample)
        alone = self.attack.moving
        radii = {RADII.get(self.attack.name, self.attack.name): flip.radius}
        if alone is not None:
            radii = {alone.name: moving.radius} | radii
        return PredictionRecord(
            **subject_of(victim).heading(sample, victim.base.length),
            predicted=victim.label,
            margin=-clean.margin,
            budget=budget_part(self.budget),
            attack=self.attack.name,
            copies=_copies(found),
            smallest_mass=float(found.base.masses.min()),
            attacked=Attacked(predicted=found.prediction, margin=-found.margin, flipped=found.flipped),
            flip_radius=radii,
            flip=FlipSearch(
                accuracy=self.accuracy,
                radii_tried=flip.tried + (0 if alone is None else moving.tried),
                smallest_mass=None if flip.found is None else float(flip.found.base.masses.min()),
            ),
            certified_radius={},
            text=text,
        )

    def _flips(self, victim: Victim, seed: int, sample: int) -> tuple[Flip, Flip]:
        """The smallest flip by moving alone, and by the attack itself: the same where it does not split."""
        alone = self.attack.moving
        moving = self.flip(self.attack if alone is None else alone, victim, generator_for(seed, "flip", sample))
        if alone is None:
            return moving, moving
        return moving, self.flip(self.attack, victim, generator_for(seed, "split", sample), moving.found)

    def flip(self, attack: Attack, victim: Victim, generator: torch.Generator, known: Perturbed | None = None) -> Flip:
        """Up to displacements as large as the input itself; never above one that is known."""
        largest = float(self.budget.norm(victim.base.points, victim.base))

        def flip_at(radius: float, known: Perturbed | None) -> Perturbed | None:
            budget = type(self.budget)(radius, self.budget.support)
            tries = victim.candidates(attack, budget, generator, known)
            return next((found for found in tries if found.flipped), None)

        start = self.budget.radius if self.budget.radius > 0 else largest / 100
        return smallest_flip(flip_at, start=start, largest=largest, accuracy=self.accuracy, known=known)

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
        job = LayerJob(subject_of(victim, index), layer, before)
        weights = arrived.weights(before)
        estimate = None if options.deterministic else layer_estimate(job, weights, options, split=False)
        (certificate,) = certify_batch(layer, before, arrived, lipschitz=estimate)
        result = AttackResult(self.attack.name, 1, observation, (), 0, arrived)
        fields = check_fields(job, 0, arrived, certificate, lipschitz=estimate, result=result)
        return LayerRecord(
            **fields | {"sample": at.sample, "tokens": victim.base.length, "copies": _copies(found)},
            agreement=agreement,
            smallest_mass=float(found.base.masses.min()),
            input_budget=budget_part(self.budget),
        )


def subject_of(victim: Victim, layer: int | None = None) -> Subject:
    """The classifier as a whole, or one of its layers."""
    model = victim.classifier.model
    return Subject(model.name, model.origin.label, layer)


def text_of(classifier: Classifier, row: torch.Tensor) -> str | None:
    """What a text says, None for an image."""
    tokenizer = classifier.model.tokenizer
    if tokenizer is None or row.is_floating_point():
        return None
    return str(tokenizer.decode(row.tolist()))


def _copies(found: Perturbed) -> int:
    """An attack that may split tokens counts copies only where the strongest perturbation found did."""
    return found.base.length // max(1, int(found.base.positions.unique().numel()))
