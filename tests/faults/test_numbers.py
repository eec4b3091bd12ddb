"""Numbers at the edge: large logits, zero weights, equal tokens, no radius or too much, stored precisions."""

import math
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file

from robust_attn.attention.jacobian import project
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify, verdict
from robust_attn.models import load_model
from robust_attn.soundness.case import Case
from robust_attn.soundness.check import check
from robust_attn.soundness.numbers import layer_of, measures_of
from robust_attn.types import ExitStatus, Verdict
from tests.composed import run

PLAIN = Case(2, attack="linear", tokens=4, width=3, out=2, groups=2, radius=0.01)
SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 40}


@pytest.mark.parametrize(
    "case",
    [
        replace(PLAIN, logit_size=100.0),
        replace(PLAIN, logit_size=100.0, stored="bfloat16", radius=1e-6),
        replace(PLAIN, weights="zero"),
        replace(PLAIN, points="constant"),
        replace(PLAIN, radius=0.0),
        replace(PLAIN, radius=1e3),
        replace(PLAIN, radius=1e3, support="tokens"),
        replace(PLAIN, token_size=1e-25),
        replace(PLAIN, masses="extreme"),
    ],
    ids=["logits-1e4", "logits-bfloat16", "zero", "equal", "still", "far", "support", "tiny", "masses"],
)
def test_every_bound_holds_and_is_known_at_the_edges(case):
    checked = check(case)
    assert checked.comparisons
    assert checked.violations == ()
    assert checked.unknown == ()


def test_logits_are_as_large_as_said():
    layer = layer_of(replace(PLAIN, logit_size=100.0))
    tokens = measures_of(PLAIN, layer)
    parts = project(layer, tokens)
    assert float((layer.scale * parts.q @ parts.k.transpose(-1, -2)).abs().max()) > 1e4


def test_a_radius_of_zero_promises_zero_and_a_large_one_no_more_than_the_hull():
    layer = layer_of(PLAIN)
    tokens = measures_of(PLAIN, layer).sample(0)
    assert certify(layer, tokens, Wasserstein(0.0)).output_change == 0
    far = certify(layer, tokens, Wasserstein(1e3))
    assert math.isfinite(far.output_change)
    assert far.output_change <= far.named("local.hull").output_change


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", ["points", "query", "value", "offset"])
def test_what_is_not_finite_is_never_called_sound(bad, place):
    layer = layer_of(PLAIN)
    tokens = measures_of(PLAIN, layer).sample(0)
    if place == "points":
        points = tokens.points.clone()
        points[0, 0] = bad
        tokens = TokenMeasure.uniform(points)
    else:
        weights = getattr(layer, place).clone()
        weights.view(-1)[0] = bad
        layer = replace(layer, **{place: weights})
    assert verdict(0.0, 0.0, certify(layer, tokens, Wasserstein(0.01))) is Verdict.UNKNOWN


def test_weights_stored_in_bfloat16_are_certified_as_they_are_stored(tmp_path):
    load_model("bert", "random", dtype=torch.float32, sizes=SIZES).module.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    stored = {name: tensor.bfloat16() for name, tensor in load_file(path).items()}
    save_file(stored, path, metadata={"format": "pt"})
    layer = load_model("bert", str(tmp_path), dtype=torch.float64).layer(0)
    weight = stored["encoder.layer.0.attention.self.query.weight"].double()
    assert layer.dtype == torch.float64
    assert torch.equal(layer.query.flatten(0, 1), weight)


def test_a_run_in_bfloat16_is_certified_for_the_rounded_weights(tmp_path):
    outcome, records, _, shown = run(tmp_path / "run", "model=toy", "layers=[0]", "dtype=bfloat16")
    assert outcome.status is ExitStatus.OK
    assert {record["verdict"] for record in records} == {"HOLDS"}
    assert "largest relative difference" in shown
    rounded = load_model("toy", "random", dtype=torch.bfloat16).layer(0)
    exact = load_model("toy", "random", dtype=torch.float64).layer(0)
    assert not torch.equal(rounded.query.double(), exact.query)


def test_weights_stored_in_float64_are_not_rounded_on_the_way(tmp_path):
    load_model("bert", "random", dtype=torch.float32, sizes=SIZES).module.save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    stored = {name: tensor.double() * (1 + 1e-12) for name, tensor in load_file(path).items()}
    save_file(stored, path, metadata={"format": "pt"})
    layer = load_model("bert", str(tmp_path), dtype=torch.float64).layer(0)
    weight = stored["encoder.layer.0.attention.self.query.weight"]
    assert not torch.equal(weight, weight.float().double())
    assert torch.equal(layer.query.flatten(0, 1), weight)


@pytest.mark.parametrize(
    "settings",
    [
        ("budget.radius=1e160",),
        ("task=lipschitz", "data=gaussian", "data.scale=1e200", "task.lengths=[2,3]", "task.windows=1"),
        ("task=worst_case", "task.radius=1e200", "task.steps=1", "task.restarts=1"),
    ],
    ids=lambda settings: settings[0],
)
def test_what_is_not_finite_ends_with_status_1_and_a_summary(settings, tmp_path):
    outcome, records, summary, _ = run(tmp_path / "run", "model=toy", "layers=[0]", *settings)
    assert outcome.status is ExitStatus.FAILED
    assert "not finite" in outcome.message
    assert records
    assert summary["exit_status"] == 1
    assert (tmp_path / "run" / "report.html").is_file()
