"""Records of an attack through a model: every layer's change stays below the certificate for exactly that change."""

import json

import pytest
import torch

from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.move import Move
from robust_attn.attacks.torchattacks_bridge import Torchattack
from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.pipeline.flips import flip_by
from robust_attn.pipeline.jobs import CertificateOptions
from robust_attn.pipeline.predictions import ThroughModel
from robust_attn.records.parts import BudgetPart
from robust_attn.through.victim import Victim
from tests.through.cases import ids, image_classifier, pixels, text_classifier

OPTIONS = CertificateOptions(lanczos_steps=40)


def records(attack, budget, reader=text_classifier, batch=ids, layers=(0, 1)):
    task = ThroughModel(attack, budget, accuracy=0.5)
    return list(task.records(reader(), batch(1), layers, OPTIONS, seed=0))


@pytest.mark.parametrize(
    ("attack", "budget"),
    [
        (Move(2, 0), Wasserstein(1e-4)),
        (Move(2, 0), Frobenius(1e-4)),
        (Move(2, 0), PerToken(1e-4)),
        (MassSplit(2, 2, 0), Wasserstein(1e-4)),
        (Torchattack("PGDL2", 3), Wasserstein(1e-4)),
    ],
)
def test_small_changes_are_certified_at_every_layer(attack, budget):
    found = [record for record in records(attack, budget) if record.kind == "layer"]
    assert [(record.sample, record.layer) for record in found] == [(0, 0), (0, 1)]
    for record in found:
        assert record.verdict == "HOLDS"
        observed, certified = record.observed, record.certified
        assert 0 < observed.output_change <= certified.output_change
        assert observed.input_change == pytest.approx(record.budget.radius, rel=1e-6)
        assert record.agreement < 1e-9
        assert record.input_budget == BudgetPart(kind=budget.kind, radius=1e-4)
    json.dumps([record.to_json() for record in found], allow_nan=False)


def test_the_change_that_leaves_is_what_the_model_itself_computes():
    """Recomputed by hand from two passes of the model for the same perturbation."""
    reader, budget, attack = text_classifier(), Wasserstein(0.05), Move(2, 0)
    victim = Victim.of(reader, reader.measure(ids()[:1]))
    moved = victim.strongest(attack, budget, torch.Generator().manual_seed(0))
    clean, after = reader.trace(moved.base), reader.trace(moved.measure)
    found = [record for record in records(attack, budget) if record.kind == "layer" and record.sample == 0]
    for layer, record in enumerate(found):
        arrives, leaves = (
            float((before - perturbed).square().sum(-1).mean().sqrt())
            for before, perturbed in (
                (clean.inputs[layer].points, after.inputs[layer].points),
                (clean.outputs[layer], after.outputs[layer]),
            )
        )
        assert record.observed.input_change == pytest.approx(arrives, rel=1e-9)
        assert record.observed.output_change == pytest.approx(leaves, rel=1e-6)


@pytest.mark.parametrize("masses", list(Masses))
def test_flips_are_found_and_splitting_never_needs_more(masses):
    (split,) = records(MassSplit(2, 6, 0, masses=masses), Wasserstein(0.2), layers=())
    (move,) = records(Move(6, 0), Wasserstein(0.2), layers=())
    assert split.flip_radius["move"] == move.flip_radius["move"]
    assert move.smallest_flip is not None
    assert split.flip_radius["split"] <= move.flip_radius["move"]
    assert split.attacked.margin <= move.attacked.margin + 1e-9
    assert split.attacked.flipped is (split.attacked.margin < 0)
    assert split.margin == move.margin > 0


def test_a_flip_is_real():
    """The input found at the flip radius is in that budget, and the classifier gives it another class."""
    reader = text_classifier()
    victim = Victim.of(reader, reader.measure(ids()[:1]))
    flip = flip_by(Move(8, 0), victim, Wasserstein(0.2), torch.Generator().manual_seed(0), accuracy=0.3)
    assert flip.found is not None
    assert bool(Wasserstein(flip.radius).contains(flip.found.displacement, victim.base).all())
    assert int(reader.logits(flip.found.measure).argmax()) != victim.label


def test_pixels_of_an_image():
    found = records(Torchattack("PGD", 3), PerToken(0.05), image_classifier, pixels)
    assert [record.kind for record in found] == ["prediction", "layer", "layer"]
    assert {record.attack for record in found} == {"PGD"}
    assert {record.verdict for record in found if record.kind == "layer"} <= {"HOLDS", "VACUOUS"}
    assert {record.tokens for record in found} == {64}


def test_a_radius_of_zero_changes_nothing_and_still_finds_the_flip():
    found = records(Move(2, 0), Wasserstein(0.0), layers=(0,))
    assert {record.observed.output_change for record in found if record.kind == "layer"} == {0.0}
    assert all(record.smallest_flip for record in found if record.kind == "prediction")
