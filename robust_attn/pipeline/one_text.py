"""One text, from Python: how far until its prediction flips, and how far it is proved that it cannot."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal

from robust_attn.attacks.baseline import NoAttack
from robust_attn.budget import Frobenius
from robust_attn.data.rows import Origin
from robust_attn.models import AttentionModel
from robust_attn.pipeline.flips import FlipOptions
from robust_attn.pipeline.jobs import CertificateOptions
from robust_attn.pipeline.predictions import ThroughModel
from robust_attn.pipeline.promises import PromiseOptions
from robust_attn.records.kinds import PredictionRecord
from robust_attn.through.classifier import TextClassifier, classifier_of
from robust_attn.through.inputs import ids_of
from robust_attn.through.readings import Reading
from robust_attn.through.victim import Victim
from robust_attn.types import UserError

Perturb = Literal["all", "one_word"]
WAYS: Mapping[str, str] = {"all": "move", "one_word": "one_word"}
"""What moving these tokens is called in a record."""


@dataclass(frozen=True, eq=False)
class FlipRadius:
    """An attack flips the prediction at `radius` (Frobenius norm of word embeddings); None where none was found."""

    radius: float | None
    record: PredictionRecord

    def __repr__(self) -> str:
        told = "no flip found" if self.radius is None else f"flips at {self.radius:.4g}"
        return f"FlipRadius(class {self.record.predicted}, {told})"


@dataclass(frozen=True, eq=False)
class CertifiedPrediction:
    """Nothing within `radius` (Frobenius norm of word embeddings) flips the prediction, but for `failure_probability`.

    0 where nothing could be certified, with the reason in `why_not`. `shares`: by step of the model, what it takes off
    the margin at that radius.
    """

    radius: float
    failure_probability: float
    shares: Mapping[str, float]
    record: PredictionRecord

    @property
    def why_not(self) -> str | None:
        """Why nothing is certified."""
        return None if self.record.proof is None else self.record.proof.why_not

    def __repr__(self) -> str:
        return f"CertifiedPrediction(class {self.record.predicted}, kept within {self.radius:.4g})"


def flip_radius(
    model: AttentionModel,
    text: str,
    *,
    perturb: Perturb = "all",
    seed: int = 0,
    accuracy: float = 0.05,
    steps: int = 16,
) -> FlipRadius:
    """The smallest radius found at which moving the embeddings of all tokens, or of one word, flips the prediction.

    From above: a smaller one may exist.
    """
    way = _way(perturb)
    task = ThroughModel(NoAttack(), Frobenius(0.0), accuracy, FlipOptions((way,), accuracy, steps))
    record = _record(task, model, text, CertificateOptions(), seed)
    return FlipRadius(record.flip_radius[way], record)


def certified_prediction(
    model: AttentionModel,
    text: str,
    *,
    perturb: Perturb = "all",
    failure_probability: float = 1e-9,
    deterministic: bool = False,
    seed: int | None = None,
    samples: int | None = None,
) -> CertifiedPrediction:
    """A radius within which moving the embeddings of all tokens, or of any one typed word, cannot flip the prediction.

    From below: proved in docs/proofs/predictions.md. `seed` repeats a certificate; a fresh one is drawn without.
    """
    _way(perturb)
    options = CertificateOptions(deterministic, failure_probability)
    options = options if seed is None else replace(options, seed=seed)
    task = ThroughModel(NoAttack(), Frobenius(0.0), promises=PromiseOptions((perturb,), samples))
    record = _record(task, model, text, options, 0)
    of_word = {} if record.proof is None else record.proof.shares
    shares = {
        step: share for step, share in (record.shares if perturb == "all" else of_word).items() if share is not None
    }
    radius = record.certified_radius[perturb]
    return CertifiedPrediction(radius or 0.0, record.failure_probability or 0.0, shares, record)


def _way(perturb: str) -> str:
    if perturb not in WAYS:
        raise UserError(f"perturb must be one of {', '.join(WAYS)}, got {perturb!r}.")
    return WAYS[perturb]


def _record(
    task: ThroughModel, model: AttentionModel, text: str, options: CertificateOptions, seed: int
) -> PredictionRecord:
    classifier = classifier_of(model)
    if not isinstance(classifier, TextClassifier):
        raise UserError(f"{model.name} reads images: use task=predict with data=digits or data=images.")
    batch = ids_of(classifier, text)
    victim = Victim.of(classifier, classifier.measure(batch))
    return task.prediction(victim, Reading(batch, Origin(0)), options, seed=seed)
