"""A classifier as a whole with what it reads and the attack on it, as the settings say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from robust_attn.attacks.attack import Attack
from robust_attn.pipeline.layers import chosen_layers, loaded
from robust_attn.through.classifier import Classifier, classifier_of
from robust_attn.through.readings import Reading, readings_of
from robust_attn.work import Work, told_as


@dataclass(frozen=True, eq=False)
class Whole:
    """The classifier, its inputs, the attack, and the layers that are watched."""

    classifier: Classifier
    readings: Sequence[Reading]
    attack: Attack
    layers: tuple[int, ...]


def read(work: Work) -> Whole:
    """Load the model and read the data."""
    settings = work.settings
    model = loaded(work)
    layers = chosen_layers(work, model)
    classifier = classifier_of(model)
    with told_as("attack"):
        attack: Attack = settings.attack.made()
    readings = readings_of(settings.data.made(), classifier, tokens=settings.tokens, samples=settings.samples)
    cut = sum(bool(reading.origin.cut) for reading in readings)
    if cut:
        work.desk.tell(
            f"{cut} of {len(readings)} rows have more than {settings.tokens} tokens and were cut at their end"
        )
    work.desk.begin(settings.task.name, samples=settings.samples)
    return Whole(classifier, readings, attack, layers)
