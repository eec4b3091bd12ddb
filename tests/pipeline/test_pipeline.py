import math
from dataclasses import replace

import pytest
import torch

from robust_attn.attacks.duplicate import Duplicate
from robust_attn.attacks.mass_split import Masses, MassSplit
from robust_attn.attacks.worst_case import WorstCaseSearch
from robust_attn.bounds.bound import Bound
from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import Certificate
from robust_attn.pipeline.balls import ball_bounds, ball_fields, search_records
from robust_attn.pipeline.checks import attack_records, certify_records, either
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject, generator_for, layer_estimate
from robust_attn.pipeline.parts import constant_part
from robust_attn.records.parts import Norms
from robust_attn.types import Scope, Side
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure


def job(case: Case = Case()) -> LayerJob:  # noqa: B008
    layer, inputs = random_layer(case, generator(0)), random_measure(case, generator(1))
    return LayerJob(Subject("toy", "random:0", 3), layer, inputs)


def test_generators_depend_on_their_purpose_alone():
    draws = {
        parts: float(torch.rand(1, generator=generator_for(*parts)))
        for parts in ((0, "a", 1), (0, "a", 2), (1, "a", 1), (0, "b", 1))
    }
    assert len(set(draws.values())) == 4
    assert float(torch.rand(1, generator=generator_for(0, "a", 1))) == draws[0, "a", 1]


def test_split_measures_are_certified_with_the_constant_of_copies():
    """x = (0, 1), A = -8: the record of a split says 2, the one of a move 1.853."""
    subject = Subject("toy", "random:0", 0)
    solved = LayerJob(subject, scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0])))
    (split,) = attack_records(solved, MassSplit(2), Wasserstein(1e-6), CertificateOptions(), seed=0)
    assert split.lipschitz.lower == pytest.approx(2.0, rel=1e-9)
    assert split.verdict == "HOLDS"
    assert split.tightness > 0.99
    assert split.tokens == 2
    assert split.copies == 2
    assert split.motion.parts == (2, 2)
    assert max(split.motion.rms) > 0


def test_a_sliver_is_certified_as_its_measure_and_as_any_measure_near():
    """Both certificates hold, so the smaller one counts, and what was observed lies below it."""
    sliver = MassSplit(steps=10, masses=Masses.SLIVER, context=1e10)
    records = list(attack_records(job(), sliver, Wasserstein(0.05), CertificateOptions(), seed=0))
    assert [record.sample for record in records] == [0, 1]
    for record in records:
        names = [bound.name for bound in record.bounds]
        assert {"local.second_order", "split.hull", "split.mean_field"} <= set(names)
        able = [bound.output_change for bound in record.bounds if bound.applies and not bound.comparator]
        assert record.certified.output_change in able
        assert record.observed.output_change <= record.certified.output_change
        assert record.verdict in ("HOLDS", "VACUOUS")
        assert record.lightest_mass < 1 / record.tokens


def test_samples_with_a_radius_of_their_own_are_attacked_one_by_one():
    records = list(attack_records(job(), Duplicate(), Wasserstein(0.0), CertificateOptions(), seed=0))
    assert [record.sample for record in records] == [0, 1]
    assert len({record.budget.radius for record in records}) == 2
    assert all(record.verdict in ("HOLDS", "VACUOUS") for record in records)
    assert all(record.observed.input_change <= record.budget.radius for record in records)


def test_of_two_certificates_the_smaller_counts_unless_one_is_unknown():
    first, second, unknown = (
        Certificate(name, change, 0.0, (Bound(name, 0.0, change, Scope.GLOBAL),))
        for name, change in (("a", 2.0), ("b", 1.0), ("c", math.nan))
    )
    assert either(first, second).bound == "b"
    assert [bound.name for bound in either(first, second).bounds] == ["a", "b"]
    assert math.isnan(either(second, unknown).output_change)


def test_heads_are_certified_one_by_one():
    records = list(certify_records(job(), Wasserstein(0.01), CertificateOptions(), heads=True))
    assert [(record.head, record.sample) for record in records] == [
        (head, sample) for head in (None, 0, 1) for sample in (0, 1)
    ]


def test_certify_tells_norms_and_a_radius_only_if_asked():
    """A = 0, V = 3: radius 0.1 keeps 0.3; |A| = kappa = 0 makes c_n = n/(1 + n - 1) = 1, and R = 1 + 0.01 sqrt(2)."""
    solved = LayerJob(Subject("toy", "random:0", 0), scalar_layer(0.0, 3.0), one_sample(scalar_measure([0.0, 1.0])))
    arguments = (solved, Wasserstein(0.01), CertificateOptions())
    (silent,) = certify_records(*arguments, heads=True)
    (told,) = certify_records(*arguments, heads=True, tolerance=0.3)
    assert silent.certified_radius is None
    assert silent.norms == told.norms
    expected = Norms(radius=1 + 0.01 * math.sqrt(2), value=3.0, interaction=0.0, kappa=0.0, mixing=1.0)
    assert silent.norms.to_json() == pytest.approx(expected.to_json())
    assert told.certified_radius.radius == pytest.approx(0.1, rel=1e-3)
    assert (told.certified_radius.tolerance, told.certified_radius.unbounded) == (0.3, False)
    assert replace(told, certified_radius=None) == silent


def test_certified_radii_use_the_constants_of_their_certificates():
    """At the radius of the record, with the record's own options, the certificate is the tolerance up to accuracy."""
    for deterministic in (False, True):
        options = CertificateOptions(deterministic=deterministic)
        for entry in certify_records(job(), Wasserstein(1.0), options, heads=False, tolerance=0.01):
            radius = entry.certified_radius.radius
            again = list(certify_records(job(), Wasserstein(radius), options, heads=False))[entry.sample]
            assert again.certified.output_change == pytest.approx(0.01, rel=3e-3)
            assert again.certified.output_change <= 0.01
            assert again.certified.bound == entry.certified_radius.bound


def test_worst_case_starts_from_the_papers_configurations():
    search = WorstCaseSearch(1.0, steps=5, restarts=1)
    (record,) = search_records(job(Case(bias=False)), search, 5, seed=0)
    assert record.verdict == "HOLDS"
    assert 0 < record.tightness <= 1


def bound(name: str, value: float, side: Side = Side.UPPER) -> Bound:
    return Bound(name, math.log10(value), value, Scope.GLOBAL, side)


@pytest.mark.parametrize(
    ("attained", "verdict"), [(3.0, "HOLDS"), (5.5, "VIOLATED"), (1.0, "VIOLATED"), (math.nan, "UNKNOWN")]
)
def test_a_constant_must_lie_between_the_bounds_of_its_ball(attained, verdict):
    """Between the lower bound 2 and the smaller upper bound 5."""
    facts = ball_fields(attained, [bound("a", 50.0), bound("b", 5.0), bound("c", 2.0, Side.LOWER)])
    assert facts["verdict"] == verdict
    assert facts["certified"].bound == "b"
    assert facts["certified"].constant == pytest.approx(5.0)


def test_bounds_of_a_ball_take_the_masses_into_account():
    """Equal masses have a discrete bound; unequal ones do not, but keep the unified and the mean-field one."""
    layer = scalar_layer(-1.0)
    equal = {b.name: b for b in ball_bounds(layer, scalar_measure([0.0, 1.0]), 1.0)}
    unequal = {b.name: b for b in ball_bounds(layer, scalar_measure([0.0, 1.0], [0.1, 0.9]), 1.0)}
    assert equal["paper.discrete"].applies
    assert not unequal["paper.discrete"].applies
    assert unequal["paper.mean_field"].log10 == pytest.approx(equal["paper.mean_field"].log10)
    assert unequal["sharp.unified"].log10 > equal["sharp.unified"].log10


def test_estimates_depend_on_the_certificates_own_seed_alone():
    options = CertificateOptions()
    first, again = (layer_estimate(job(), job().inputs.masses, options, split=False) for _ in range(2))
    assert constant_part(first, 1) == constant_part(again, 1)
    assert constant_part(first, 1).seed == options.seed != CertificateOptions().seed
    assert constant_part(first, 1).lower <= constant_part(first, 1).upper
    alone = job().head(1)
    assert alone.subject.heading(0, 4)["head"] == 1
    assert alone.layer.heads == 1
