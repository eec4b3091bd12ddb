import pytest

from robust_attn.budget import Frobenius
from robust_attn.pipeline.checks import tightness_records
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject
from robust_attn.records.kinds import TightnessRecord
from robust_attn.records.parts import BoundPart, BudgetPart, Certified, Constant
from robust_attn.tasks.tightness import TightnessTask, panels
from robust_attn.types import Verdict
from robust_attn.views.studies import excess_of
from tests.cases import Case, generator, random_layer, random_measure


@pytest.fixture(scope="module")
def records():
    layer, inputs = random_layer(Case(), generator(0)), random_measure(Case(), generator(1))
    job = LayerJob(Subject("toy", "random:0", 2), layer, inputs)
    return list(tightness_records(job, Frobenius, (1e-6, 1e-2, 1.0), CertificateOptions()))


def test_a_record_per_radius_and_sample(records):
    assert [(r.budget.radius, r.sample) for r in records] == [(e, s) for e in (1e-6, 1e-2, 1.0) for s in (0, 1)]
    assert {record.budget.kind for record in records} == {"frobenius"}
    assert {record.verdict for record in records} <= {"HOLDS", "VACUOUS"}


def test_certificates_are_exact_in_the_limit_and_never_below_one(records):
    values = [excess_of(record) for record in records]
    assert values[0] == pytest.approx(1.0, abs=1e-3)
    assert all(value >= 1 - 1e-9 for value in values[:4])
    assert values[2] > values[0]


def test_excess_by_hand():
    """Allowed 0.3 at radius 0.1 where the constant is 2: 1.5; the other bound 0.6: 3."""
    entry = TightnessRecord(
        model="toy",
        weights="random:0",
        budget=BudgetPart(kind="frobenius", radius=0.1),
        lipschitz=Constant(lower=2.0),
        bounds=(BoundPart(name="a", output_change=0.6), BoundPart(name="b", output_change=1.0, applies=False)),
        certified=Certified(bound="a", output_change=0.3),
        verdict=Verdict.HOLDS,
    )
    assert excess_of(entry) == pytest.approx(1.5)
    assert excess_of(entry, "a") == pytest.approx(3.0)
    assert excess_of(entry, "b") is None


def test_findings_and_panels(records):
    found = TightnessTask().findings(records)["certified_over_exact"]
    assert [entry["radius"] for entry in found] == [1e-6, 1e-2, 1.0]
    assert all(entry["layer"] == 2 and entry["smallest_excess"] <= entry["largest_excess"] for entry in found)
    certified, bounds = panels(records)
    assert list(certified.lines) == ["layer 2"]
    assert {"paper.discrete", "sharp.unified", "local.second_order", "local.hull"} <= set(bounds.lines)
    assert panels([]) == ()
