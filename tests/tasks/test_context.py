import pytest

from robust_attn.attacks.mass_split import MassSplit
from robust_attn.budget import TokenRadius, Wasserstein
from robust_attn.pipeline.checks import context_records
from robust_attn.pipeline.jobs import CertificateOptions, LayerJob, Subject
from robust_attn.records.kinds import ContextRecord
from robust_attn.records.parts import BudgetPart, Certified, Observed
from robust_attn.tasks.context import ContextTask, panels
from robust_attn.types import Covers, Verdict
from tests.cases import Case, generator, random_layer, random_measure

CONTEXTS = (4, 100.0, 1e6)


@pytest.fixture(scope="module")
def records():
    layer, inputs = random_layer(Case(), generator(0)), random_measure(Case(), generator(1), samples=1)
    job = LayerJob(Subject("toy", "random:0", 2), layer, inputs)
    budget = Wasserstein(0.05, TokenRadius())
    options = CertificateOptions(seed=1)
    return list(context_records(job, MassSplit(steps=3), budget, CONTEXTS, options, seed=0))


def test_promises_grow_with_the_context_and_no_attack_exceeds_one(records):
    assert [record.context for record in records] == list(CONTEXTS)
    promised = [record.certified.output_change for record in records]
    assert promised == sorted(promised)
    assert {record.certified.covers for record in records} == {Covers.CONTEXT}
    assert {record.verdict for record in records} <= {Verdict.HOLDS, Verdict.VACUOUS}
    for record in records:
        assert record.lightest_mass * record.context >= 1 - 1e-9


def entry(context: float, observed: float, promised: float | None, sample: int = 0) -> ContextRecord:
    return ContextRecord(
        model="toy",
        weights="random:0",
        layer=3,
        sample=sample,
        budget=BudgetPart(kind="wasserstein", radius=0.1),
        observed=Observed(output_change=observed),
        certified=Certified(bound="context.hull", output_change=promised),
        verdict=Verdict.VACUOUS,
        context=context,
    )


def test_gains_by_hand():
    """Radius 0.1: the largest over samples, per radius; what is attained is never lost in a longer context."""
    own = [entry(8, 0.3, 0.5), entry(8, 0.2, 0.6, sample=1), entry(64, 0.1, 0.9), entry(64, 0.1, None, sample=1)]
    (panel,) = panels(own)
    assert panel.lines == {
        "layer 3, certified": ((8, pytest.approx(6.0)),),
        "layer 3, attained": ((8, pytest.approx(3.0)), (64, pytest.approx(3.0))),
    }
    found = ContextTask().findings(own)["gains"]
    assert [each["context"] for each in found] == [8, 64]
    assert found[1]["certified"] is None
    assert panels([]) == ()
