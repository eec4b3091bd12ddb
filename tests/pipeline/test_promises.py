"""Certified radii in every norm, what is said where there is none, and the verdict beside the flips."""

import dataclasses
import math

import pytest

from robust_attn.budget import Frobenius, PerToken, Wasserstein
from robust_attn.pipeline import promises
from robust_attn.pipeline.jobs import CertificateOptions
from robust_attn.pipeline.promises import PromiseOptions, in_norm, promised, verdict_on
from robust_attn.predictions.smoothing import Smoothing
from robust_attn.types import UserError, Verdict
from tests.cases import generator
from tests.through.cases import text_victim

VICTIM = text_victim()
OPTIONS = CertificateOptions(failure_probability=1e-6, seed=3)


def proved(*which, budget=None, smoothing=None, rows=(1, 2), options=OPTIONS):
    return promised(
        VICTIM.classifier, VICTIM.base, rows, budget=Frobenius(0.0) if budget is None else budget,
        asked=PromiseOptions(which, 96, smoothing), options=options, generator=generator(0),
    )  # fmt: skip


@pytest.mark.slow
def test_radii_of_every_kind_with_one_failure_probability():
    found = proved("all", "one_word", "interval", "product", smoothing=Smoothing(0.01, 40))
    assert set(found.radii) == {"all", "one_word", "interval", "product", "smoothing"}
    assert 0 < found.radii["all"] < 1
    assert 0 < found.radii["one_word"] < 1
    assert found.failure_probability == pytest.approx(1e-6)
    assert {"first", "second", "layer0.attention"} <= set(found.shares) & set(found.proof.shares)
    assert (found.proof.seed, found.proof.samples, found.proof.words) == (3, 96, 2)
    assert found.smoothed.samples == 40
    assert found.direction.shape == VICTIM.base.points[0].shape


def test_nothing_asked_for_nothing_promised():
    found = proved()
    assert (found.radii, found.proof, found.failure_probability) == ({}, None, None)


def test_what_cannot_be_certified_says_why(monkeypatch):
    def refused(*_):
        raise UserError("no steps for such a model")

    monkeypatch.setattr(promises, "network_of", refused)
    found = proved("all", "product")
    assert found.radii == {"all": None, "product": None}
    assert found.proof.why_not == "no steps for such a model"
    assert verdict_on({"move": 0.1}, found.radii, ("all", "product")) is Verdict.UNKNOWN


@pytest.mark.slow
def test_a_radius_that_is_not_confirmed_is_unknown(monkeypatch):
    real = promises.certified_prediction

    def unconfirmed(*args, **options):
        return dataclasses.replace(real(*args, **options), verdict="UNKNOWN")

    monkeypatch.setattr(promises, "certified_prediction", unconfirmed)
    found = proved("all")
    assert found.radii == {"all": None}
    assert "task.sketch" in found.proof.why_not


@pytest.mark.parametrize("kind", [Wasserstein, PerToken])
def test_a_converted_radius_keeps_inside(kind):
    """Random displacements on the boundary of the converted budget are inside the Frobenius ball, n = 5."""
    radius = in_norm(0.7, VICTIM.base, kind(0.0))
    budget, g = kind(radius), generator(0)
    sizes = [float(budget.sample(VICTIM.base, g).norm()) for _ in range(20)]
    assert max(sizes) <= 0.7 * (1 + 1e-12)
    assert max(sizes) == pytest.approx(0.7)
    assert radius == pytest.approx(0.7 / math.sqrt(5))


def test_one_word_alone_costs_what_it_moves():
    assert in_norm(0.7, VICTIM.base, PerToken(0.0), alone=True) == 0.7
    assert in_norm(0.7, VICTIM.base, Frobenius(0.0)) == 0.7
    assert in_norm(None, VICTIM.base, Wasserstein(0.0)) is None


@pytest.mark.parametrize(
    ("flips", "radii", "verdict"),
    [
        ({"move": 0.2}, {"all": 0.1}, Verdict.HOLDS),
        ({"move": None}, {"all": 0.1}, Verdict.HOLDS),
        ({"move": 0.05}, {"all": 0.1}, Verdict.VIOLATED),
        ({"move": 0.2, "one_word": 0.05}, {"all": 0.1}, Verdict.VIOLATED),
        ({"PGD": 0.05}, {"all": 0.1}, Verdict.VIOLATED),
        ({"move": 0.05}, {"interval": 0.1}, Verdict.VIOLATED),
        ({"move": 0.05, "one_word": 0.2}, {"one_word": 0.1}, Verdict.HOLDS),
        ({"one_word": 0.05}, {"one_word": 0.1}, Verdict.VIOLATED),
        ({"split": 0.05, "typed": None}, {"all": 0.1}, Verdict.HOLDS),
        ({"move": 0.2}, {"all": None, "product": 0.1}, Verdict.UNKNOWN),
        ({"move": 0.2}, {"all": 0.1, "product": None}, Verdict.HOLDS),
        ({"move": 0.2}, {"product": None}, Verdict.UNKNOWN),
        ({"move": 0.2}, {}, None),
    ],
)
def test_verdicts(flips, radii, verdict):
    assert verdict_on(flips, radii, tuple(radii)) is verdict


def test_smoothing_violates_nothing():
    assert verdict_on({"move": 0.05}, {"all": 0.01, "smoothing": 0.5}, ("all",)) is Verdict.HOLDS
