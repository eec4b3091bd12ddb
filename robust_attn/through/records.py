"""Records of an attack through a classifier: what became of the prediction, and of the change at every layer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from robust_attn.attacks.attack import Attack, AttackResult
from robust_attn.budget import Budget
from robust_attn.certificates.layer import certify_batch
from robust_attn.models.selfcheck import relative_difference
from robust_attn.observation import observe
from robust_attn.pipeline import CertificateOptions, LayerJob, generator_for, layer_estimate
from robust_attn.record import SCHEMA, Subject, finite, record
from robust_attn.through.classifier import Classifier, Trace
from robust_attn.through.flip import Flip, smallest_flip
from robust_attn.through.victim import Perturbed, Victim
from robust_attn.types import UserError

LAYERS, PREDICTION = "through_model", "prediction"
"""What the records of a layer and those of a prediction call their task."""
AGREEMENT = 1e-6
"""Largest relative difference between a layer's output in the model and the layer alone on the same measure."""


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
    ) -> Iterator[dict[str, Any]]:
        """For each sample one record of the prediction and one of every layer."""
        for sample in range(len(batch)):
            victim = Victim.of(classifier, classifier.measure(batch[sample : sample + 1]))
            found = victim.strongest(self.attack, self.budget, generator_for(seed, "through", sample))
            yield {
                **heading(victim, sample, None, PREDICTION),
                **prediction_fields(victim, found),
                **self._flips(victim, seed, sample),
                **self._attacked(found),
                "budget": self._within,
                "text": _text(classifier, batch[sample]),
            }
            yield from self._layer_records(victim, found, layers, options, sample=sample)

    def _attacked(self, found: Perturbed) -> dict[str, Any]:
        """An attack that may split tokens counts copies only where the strongest perturbation found did."""
        copies = found.base.length // max(1, int(found.base.positions.unique().numel()))
        return {
            "attack": self.attack.name,
            "copies": copies,
            "smallest_mass": float(found.base.masses.min()),
        }

    @property
    def _within(self) -> dict[str, Any]:
        return {"kind": self.budget.kind, "radius": self.budget.radius}

    def _flips(self, victim: Victim, seed: int, sample: int) -> dict[str, Any]:
        """The radius at which the prediction flips; beside that of splitting the radius of moving alone."""
        alone = self.attack.moving
        moving = self.flip(self.attack if alone is None else alone, victim, generator_for(seed, "flip", sample))
        splitting = generator_for(seed, "split", sample)
        flip = moving if alone is None else self.flip(self.attack, victim, splitting, moving.found)
        return {
            "flip_radius": flip.radius,
            "flip_smallest_mass": None if flip.found is None else float(flip.found.base.masses.min()),
            "flip_radius_moving": moving.radius,
            "flip_accuracy": self.accuracy,
            "radii_tried": flip.tried + (0 if alone is None else moving.tried),
        }

    def flip(self, attack: Attack, victim: Victim, generator: torch.Generator, known: Perturbed | None = None) -> Flip:
        """Up to displacements as large as the input itself; never above one that is known."""
        largest = float(self.budget.norm(victim.base.points, victim.base))

        def flip_at(radius: float, known: Perturbed | None) -> Perturbed | None:
            budget = type(self.budget)(radius, self.budget.support)
            tries = victim.candidates(attack, budget, generator, known)
            return next((found for found in tries if found.flipped), None)

        start = self.budget.radius if self.budget.radius > 0 else largest / 100
        return smallest_flip(flip_at, start=start, largest=largest, accuracy=self.accuracy, known=known)

    def _layer_records(
        self,
        victim: Victim,
        found: Perturbed,
        layers: Sequence[int],
        options: CertificateOptions,
        *,
        sample: int,
    ) -> Iterator[dict[str, Any]]:
        classifier = victim.classifier
        clean, perturbed = classifier.trace(found.base), classifier.trace(found.measure)
        for layer in layers:
            entry = self._layer_record(victim, clean, perturbed, layer, options)
            yield {
                **heading(victim, sample, layer, LAYERS),
                **entry,
                **self._attacked(found),
                "input_budget": self._within,
            }

    def _layer_record(
        self, victim: Victim, clean: Trace, perturbed: Trace, index: int, options: CertificateOptions
    ) -> dict[str, Any]:
        """The change that arrives, the change that leaves, and the certificate of the layer for exactly that change."""
        layer = victim.classifier.model.layer(index)
        before, after = clean.inputs[index], perturbed.inputs[index]
        change = float(self.budget.norm((after.points - before.points).double(), before))
        arrived = type(self.budget)(change, layer.input_radius)
        observation = observe(layer, before, after.points, arrived)
        agreement = relative_difference(layer(after), perturbed.outputs[index])
        if not agreement <= max(AGREEMENT, torch.finfo(layer.dtype).eps ** 0.5):
            raise UserError(f"layer {index} alone differs from the model's own pass by {agreement:.1e} relative.")
        model = victim.classifier.model
        job = LayerJob(Subject(model.name, model.origin.label, index), layer, before)
        weights = arrived.weights(before)
        estimate = None if options.deterministic else layer_estimate(job, weights, options, split=False)
        (certificate,) = certify_batch(layer, before, arrived, lipschitz=estimate)
        result = AttackResult(self.attack.name, 1, observation, (), 0, arrived)
        whole = record(
            job.subject, 0, before.length, arrived, certificate=certificate, lipschitz=estimate, result=result
        )
        kept = ("budget", "observed", "certified", "tightness", "verdict", "lipschitz", "bounds")
        return {**{name: whole[name] for name in kept}, "agreement": finite(agreement)}


def prediction_fields(victim: Victim, found: Perturbed) -> dict[str, Any]:
    """Class and margin (the largest other logit minus that of the label), before and after."""
    clean = Perturbed(victim.base, victim.base, victim.classifier.trace(victim.base).logits, victim.label, found.radius)
    return {
        "prediction": {"clean": victim.label, "perturbed": found.prediction, "flipped": found.flipped},
        "margin": {"clean": finite(clean.margin), "perturbed": finite(found.margin)},
    }


def heading(victim: Victim, sample: int, layer: int | None, task: str) -> dict[str, Any]:
    """The fields that every record starts with; a record of the whole model has no layer."""
    model = victim.classifier.model
    return {
        "schema": SCHEMA,
        "model": model.name,
        "weights": model.origin.label,
        "layer": layer,
        "head": None,
        "sample": sample,
        "tokens": victim.base.length,
        "task": task,
    }


def _text(classifier: Classifier, row: torch.Tensor) -> str | None:
    """What a text says, None for an image."""
    tokenizer = classifier.model.tokenizer
    if tokenizer is None or row.is_floating_point():
        return None
    return str(tokenizer.decode(row.tolist()))
