"""The comparison with exact arithmetic: its ascent is right about the layer, and it notices what must be noticed."""

import math
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

import robust_attn
from benchmarks import exact_comparisons
from benchmarks.exact_ascent import Search, replica_of
from benchmarks.exact_comparisons import COMPARISONS, Comparison, Subject, Tally, Unknown, compared, main
from benchmarks.exact_draws import FUNCTIONS, Case, drawn, known
from robust_attn.budget import PerToken, Wasserstein
from robust_attn.certificates.layer import certify
from robust_attn.soundness.check import WHOLE_MODELS
from robust_attn.soundness.exact import Judge
from robust_attn.soundness.reference import Reference
from tests.cases import CASES, generator, random_layer, random_measure, scalar_layer, scalar_measure

FOUND = {
    "1 large support": 9.03,
    "2 float32": 1.766e-7,
    "3 negative scale": 2.9,
    "4 against seed 0": 0.10299,
    "5 values cancel": 7.447,
    "5 logits cancel": 14.0,
    "5 far tokens": 7.07e-10,
}
"""What the known inputs do beyond doubt, found without knowing where to look."""


def comparisons(case: Case) -> list[Comparison]:
    return [each for each in compared(case) if isinstance(each, Comparison)]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_replica_changes_as_the_layer_does(case):
    g = generator(7)
    layer, measure = random_layer(case, g), random_measure(case, g).sample(0)
    replica, present = replica_of(Reference.of(layer, measure)), measure.present
    for budget in (Wasserstein(0.4), PerToken(0.4)):
        field = budget.sample(measure, g)
        search, judged = Search.of(replica, budget), Judge.of(layer, measure, budget).by(field)
        with np.errstate(divide="ignore"):
            assert search.change(field.numpy()[None])[0] == pytest.approx(judged.output_lower, rel=1e-12)
    with np.errstate(divide="ignore"):
        moved = torch.from_numpy(np.einsum("ioke,ke->io", replica.jacobian(), field.numpy()))
    torch.testing.assert_close(moved[present], layer.linearize(measure).jvp(field)[present])
    cotangent = torch.randn(moved.shape, generator=g, dtype=torch.float64) * present[:, None]
    there = measure.with_points(measure.points + field)
    with np.errstate(divide="ignore"):
        pulled = replica.gradient((replica.tokens + field.numpy())[None], replica.masses[None], cotangent[None].numpy())
    torch.testing.assert_close(torch.from_numpy(pulled[0])[present], layer.linearize(there).vjp(cotangent)[present])


@pytest.mark.slow
@pytest.mark.parametrize("case", known(), ids=lambda case: f"{case.name} {case.function}")
def test_the_known_inputs_hold_and_would_be_noticed(case):
    subject, wanted = Subject(case), FOUND[case.name]
    changes = subject.split(case.budget) if case.function == "certify_measures" else subject.moved(case.budget)
    assert max(changes) >= wanted
    assert not [each for each in comparisons(case) if each.violated]


def test_fields_and_slivers_are_inside():
    for seed in range(40):
        case = drawn(seed)
        subject = Subject(case)
        judge, search = Judge(subject.reference, subject.base, case.budget), Search.of(subject.replica, case.budget)
        for field in search.fields(subject.draw, 2):
            assert judge.by(torch.from_numpy(field)).inside


def test_a_certificate_that_is_too_small_is_noticed(monkeypatch):
    def too_small(layer, measure, budget, **options):
        found = certify(layer, measure, budget, **options)
        bounds = [replace(bound, output_change=bound.output_change * (1 - 1e-9)) for bound in found.bounds]
        return replace(found, bounds=tuple(bounds), output_change=found.output_change * (1 - 1e-9))

    case = Case("one token", "certify", scalar_layer(0.0), scalar_measure([1.0]), Wasserstein(0.5))
    assert not [each for each in comparisons(case) if each.violated]
    monkeypatch.setattr(exact_comparisons, "certify", too_small)
    found = [each for each in comparisons(case) if each.violated]
    assert {each.bound for each in found} >= {"local.hull", "local.second_order", "paper.mean_field"}
    assert all(1 < each.approach < 1 + 1e-8 for each in found)


def test_every_function_is_drawn_and_draws_repeat():
    cases = [drawn(seed) for seed in range(200)]
    assert {case.function for case in cases} == set(FUNCTIONS) == set(COMPARISONS)
    assert {case.layer.dtype for case in cases} == {torch.float64, torch.float32, torch.bfloat16}
    assert any(case.layer.scale < 0 for case in cases)
    assert any(case.layer.scale == 0 for case in cases)
    again = drawn(17)
    assert torch.equal(again.measure.points, cases[17].measure.points)
    assert torch.equal(again.layer.query, cases[17].layer.query)
    assert again.budget == cases[17].budget


def test_every_public_function_with_a_certificate_is_compared():
    """`head_lipschitz` is `local_lipschitz` of every head alone; the campaign attacks it as well."""
    promising = {name for name in robust_attn.__all__ if name.startswith("certif") or name.endswith("_lipschitz")}
    assert promising == {function.split()[0] for function in FUNCTIONS} | {"head_lipschitz"} | WHOLE_MODELS


def test_what_is_unknown_is_counted_and_not_compared():
    case = Case("not finite", "certify", scalar_layer(math.inf), scalar_measure([1.0, 2.0]), Wasserstein(0.5))
    (found,) = compared(case)
    assert isinstance(found, Unknown)
    tally = Tally()
    tally.add(case)
    assert (tally.comparisons, tally.lines["certify", "certificate"].unknown) == (0, 1)


def test_a_certificate_of_measures_without_a_support_is_none():
    case = Case("open", "certify_measures", scalar_layer(1.0), scalar_measure([1.0, 2.0]), Wasserstein(0.5))
    assert all(isinstance(each, Unknown) for each in compared(case))


def test_an_error_that_is_not_for_a_user_is_shown(monkeypatch, capsys):
    monkeypatch.setattr(exact_comparisons, "certify", lambda *_, **__: 1 / 0)
    tally = Tally()
    tally.add(Case("one token", "certify", scalar_layer(0.0), scalar_measure([1.0]), Wasserstein(0.5)))
    assert tally.status == 1
    tally.show(1.0)
    assert "RAISED one token" in capsys.readouterr().out


@pytest.mark.slow
def test_the_command(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["exact_comparisons", "--comparisons", "100"])
    assert main() == 0
    assert "comparisons of" in capsys.readouterr().out
    monkeypatch.setattr(exact_comparisons, "compared", lambda case: iter([Comparison(case.function, "b", 1.0, 2.0)]))
    monkeypatch.setattr(sys, "argv", ["exact_comparisons", "--seed", "3"])
    assert main() == 3
    assert "VIOLATED seed 3" in capsys.readouterr().out
