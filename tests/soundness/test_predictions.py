"""Promises about whole models beside the nearest flips: kept ones are told, broken ones are caught."""

import json
import math

import pytest
import torch

from robust_attn.soundness import campaign, predictions
from robust_attn.soundness.campaign import Campaign, model_record, replayed
from robust_attn.soundness.check import saved_case
from robust_attn.soundness.comparison import Checked
from robust_attn.soundness.predictions import (
    Promise,
    WholeCase,
    WholeChecked,
    margins_and_slopes,
    model_checked,
    nearest_flips,
)
from robust_attn.soundness.whole_models import drawn_model
from robust_attn.types import Verdict


def claiming(share):
    """A proof that claims this much of the linear radius: of seed 3, whose margin is small, that is nearly the flip."""

    def promises(network, points, _):
        margins, slope = margins_and_slopes(network.tape(points), points[None])
        yield Promise("all", share * float(margins[0]) / float(slope.norm()), torch.ones_like(points)[None])

    return promises


def test_a_flip_found_is_one_and_lies_where_it_may():
    network, points, _ = drawn_model(3)
    rows = torch.zeros_like(points)
    rows[1] = 1
    promises = [Promise("all", 1e-4, torch.ones_like(points)[None]), Promise("row", 1e-4, rows[None])]
    near, far = nearest_flips(network, points, promises, 0)
    assert 1e-4 < near <= far < math.inf
    _, slope = margins_and_slopes(network.tape(points), points[None])
    margin = float(margins_and_slopes(network.tape(points), points[None])[0][0])
    assert near == pytest.approx(margin / float(slope.norm()), rel=0.1)  # so near that the margin is linear


def test_promises_kept_are_compared_and_a_radius_too_large_is_caught(monkeypatch):
    monkeypatch.setattr(predictions, "promises_of", claiming(0.9))
    kept = model_checked(WholeCase(3)).checked
    assert not kept.violations
    assert [each.bound for each in kept.comparisons] == ["certified_prediction.all"]
    assert kept.comparisons[0].approach > 0.8
    monkeypatch.setattr(predictions, "promises_of", claiming(1.15))
    assert model_checked(WholeCase(3)).checked.violations


def test_what_fails_is_unknown(monkeypatch):
    def failing(*_):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(predictions, "promises_of", failing)
    found = model_checked(WholeCase(0)).checked
    assert found.unknown == ("RuntimeError: no such thing",)
    assert not found.comparisons


@pytest.mark.slow
def test_every_kind_of_promise_is_made_and_kept():
    names = set()
    for seed in (0, 3):
        checked = model_checked(WholeCase(seed)).checked
        assert not checked.violations
        assert not checked.unknown
        names |= {each.bound.removeprefix("certified_prediction.") for each in checked.comparisons}
    assert names == {"all", "row", "one_word", "deterministic", "deterministic_row", "interval", "product"}


def nothing_checked(_):
    return WholeChecked(Checked(()), 2, 0.0, {"function": "certified_prediction"})


def test_whole_models_take_turns_with_layers_and_shift_no_seed(monkeypatch):
    monkeypatch.setattr(campaign, "model_checked", nothing_checked)
    monkeypatch.setattr(campaign, "check", lambda _: Checked(()))
    found = [
        (record.layer, record.seed) for record in Campaign(2, None, 7, models=3, first_model=4).records(lambda *_: None)
    ]
    assert found == [(0, 7), (None, 4), (0, 8), (None, 5), (None, 6)]
    alone = [(record.layer, record.seed) for record in Campaign(2, None, 7).records(lambda *_: None)]
    assert alone == [(0, 7), (0, 8)]


def test_a_broken_promise_of_a_whole_model_is_saved_and_replayed(monkeypatch, tmp_path):
    monkeypatch.setattr(predictions, "promises_of", claiming(1.15))
    saved = {}
    record = model_record(WholeCase(3), saved.__setitem__)
    assert record.verdict is Verdict.VIOLATED
    assert record.violated[0] == "certified_prediction.all"
    assert record.closest["certified_prediction.all"] > 1
    name, values = next(iter(saved.items()))
    assert name == "model-3-certified_prediction.all.json"
    file = tmp_path / name
    file.write_text(json.dumps(values))
    assert saved_case(file) == WholeCase(3)
    assert replayed(saved_case(file)).verdict is Verdict.VIOLATED
    monkeypatch.setattr(predictions, "promises_of", claiming(0.9))
    assert replayed(saved_case(file)).verdict is Verdict.HOLDS
