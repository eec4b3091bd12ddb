import math

import pytest

from robust_attn.tasks.mass_splitting import MassSplittingTask

STUDY = MassSplittingTask(
    copies=(1, 2), radii=(1e-5,), balances=(0.5, 0.01, 1e-4), slivers=(1e-6, 1e-3), steps=20, restarts=1
)


@pytest.fixture(scope="module")
def records():
    return list(STUDY.measured(seed=0))


def test_two_copies_of_the_first_example(records):
    """Tokens (0, 1), A = -8: moving 1.853, splitting 2; both reached by the attack on a small budget."""
    found = {r.copies: r for r in records if r.kind == "attack"}
    assert found[1].lipschitz.lower == pytest.approx(1.853, abs=1e-3)
    assert found[2].lipschitz.lower == pytest.approx(2.0, rel=1e-9)
    assert found[1].observed.gain == pytest.approx(1.853, abs=1e-3)
    assert found[2].observed.gain == pytest.approx(2.0, abs=1e-3)


def test_unbalanced_masses_make_the_ratio_unbounded(records):
    """Mass m at -1, A = -1/m: moving sqrt(m/(1-m)) for small m, splitting 1 - m."""
    found = {r.mass: r for r in records if r.kind == "splitting" and r.series == "balance"}
    for mass in (0.01, 1e-4):
        assert found[mass].move == pytest.approx(math.sqrt(mass / (1 - mass)), rel=1e-3)
        assert found[mass].split == pytest.approx(1 - mass, rel=1e-3)
    assert found[0.5].split == pytest.approx(found[0.5].move)


def test_a_sliver_exceeds_the_local_constant(records):
    """Tokens (-1, 1), A = 8: local constant 1.0000, W2 gain of a sliver of 1e-6 moved to -0.18: 1.6048."""
    found = {r.mass: r for r in records if r.kind == "splitting" and r.series == "sliver"}
    assert found[1e-6].observed.w2_gain == pytest.approx(1.6048, abs=1e-4)
    assert found[1e-6].split == pytest.approx(1.0, abs=1e-3)
    assert found[1e-6].observed.w2_input == pytest.approx(1.18e-3, rel=1e-6)


def test_findings_and_panels(records):
    found = STUDY.findings(records)
    assert found["local_constant_by_copies"]["2"] == pytest.approx(2.0)
    assert found["largest_ratio_of_balance"] == pytest.approx(0.9999 / math.sqrt(1e-4 / 0.9999), rel=1e-3)
    assert found["largest_sliver_gain"] > 1.6
    copies, balance, sliver = STUDY.panels(records)
    assert list(copies.lines) == ["move", "2 copies"]
    assert len(balance.lines["split"]) == 3
    assert len(sliver.lines["W2 gain"]) == 2
