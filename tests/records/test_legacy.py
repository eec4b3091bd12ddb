"""Lines of schema 1, as version 0.1 wrote them, become records of today."""

import pytest

from robust_attn.records.kinds import (
    AttackRecord,
    CarriedRecord,
    LayerRecord,
    PredictionRecord,
    SplittingRecord,
    StudyRecord,
    record_from,
)
from robust_attn.records.legacy import STUDIES, upgraded

HEADING = {"schema": 1, "model": "m", "weights": "w", "layer": 0, "head": None, "sample": 0, "tokens": 12}
CHECK = {
    "budget": {"kind": "wasserstein", "radius": 0.01},
    "observed": {"output_change": 0.1},
    "lipschitz": {"lower": 1.0, "upper": 1.1, "failure_probability": 1e-9},
    "bounds": [{"name": "local.hull", "log10": 1.0, "output_change": 0.1, "scope": "ball", "applies": True}],
    "certified": {"bound": "local.hull", "output_change": 0.1, "failure_probability": 0.0},
    "tightness": 1.0,
    "verdict": "VACUOUS",
}
BALL = {"configuration": "paper", "mask": "none", "radius": 2.0, "certified": {"bound": "x", "constant": 3.0}}


def read(**fields):
    return record_from(upgraded(HEADING | fields, None))


@pytest.mark.parametrize("study", STUDIES)
def test_a_study_keeps_its_name(study):
    record = read(task=study, **BALL, lipschitz={"lower": 1.0}, verdict="HOLDS")
    assert isinstance(record, StudyRecord)
    assert (record.study, record.certified.constant) == (study, 3.0)


def test_a_prediction_has_margins_of_today():
    old = {
        "task": "prediction",
        "layer": None,
        "prediction": {"clean": 0, "perturbed": 1, "flipped": True},
        "margin": {"clean": -4.5, "perturbed": 5.5},
        "flip_radius": 1e-5,
        "flip_radius_moving": 0.06,
        "flip_smallest_mass": 1e-10,
        "flip_accuracy": 0.05,
        "radii_tried": 22,
        "attack": "mass_split",
        "copies": 2,
        "budget": {"kind": "wasserstein", "radius": 0.05},
    }
    record = read(**old)
    assert isinstance(record, PredictionRecord)
    assert (record.predicted, record.margin, record.flip_radius) == (0, 4.5, {"move": 0.06, "split": 1e-5})
    assert record.attacked is not None
    assert (record.attacked.predicted, record.attacked.margin, record.attacked.flipped) == (1, -5.5, True)
    assert read(**old | {"attack": "PGD"}).flip_radius == {"PGD": 1e-5}


def test_a_layer_on_the_way_through_a_model():
    record = read(task="through_model", **CHECK, input_budget={"kind": "wasserstein", "radius": 0.05})
    assert isinstance(record, LayerRecord)


def test_the_three_series_of_mass_splitting():
    assert isinstance(read(task="mass_splitting", series="copies", **CHECK), AttackRecord)
    balance = read(task="mass_splitting", series="balance", mass=0.1, move=0.3, split=0.9)
    sliver = read(task="mass_splitting", series="sliver", mass=1e-6, lipschitz={"lower": 1.0}, observed={"gain": 2.0})
    assert isinstance(balance, SplittingRecord)
    assert isinstance(sliver, SplittingRecord)
    assert (balance.split, sliver.split, sliver.observed.gain) == (0.9, 1.0, 2.0)


def test_a_campaign_that_goes_on_with_another():
    counts = {"cases": 1, "comparisons": 2, "violations": 0, "unknown_cases": 0, "seconds": 1.0, "last_seed": 7}
    carried = counts | {"unknown": {}, "drawn": {"attack": {"move": 1}}, "closest": {"a": {"approach": 0.5, "seed": 7}}}
    record = read(task="soundness", continues="folder", verdict="HOLDS", carried=carried)
    assert isinstance(record, CarriedRecord)
    assert record.carried.closest["a"].approach == 0.5


def test_a_record_of_today_stays_as_it_is():
    assert upgraded({"schema": 2, "kind": "attack"}, "certify") == {"schema": 2, "kind": "attack"}
