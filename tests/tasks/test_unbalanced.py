import pytest

from robust_attn.tasks.unbalanced import UnbalancedTask

STUDY = UnbalancedTask(A=((-1.0,),), atoms=(2,), radii=(1.0, 2.0), steps=40, restarts=2)


@pytest.fixture(scope="module")
def records():
    return list(STUDY.measured(seed=0))


def test_free_masses_beat_equal_ones_below_the_bounds(records):
    assert {record.verdict for record in records} == {"HOLDS"}
    for radius in (1.0, 2.0):
        found = {r.configuration: r for r in records if r.radius == radius}
        free, equal = found["free masses"], found["equal masses"]
        assert free.lipschitz.lower > 1.5 * equal.lipschitz.lower
        assert sum(free.masses) == pytest.approx(1.0)
        assert free.masses[0] > 0.8
        assert equal.masses == (0.5, 0.5)
        assert all(abs(x) <= radius * (1 + 1e-9) for (x,) in free.points)


def test_findings_and_panel(records):
    steepest = STUDY.findings(records)["steepest"]
    assert [(entry["radius"], entry["configuration"]) for entry in steepest] == [
        (radius, kind) for radius in (1.0, 2.0) for kind in ("free masses", "equal masses")
    ]
    (panel,) = STUDY.panels(records)
    assert {"2 atoms, free masses", "2 atoms, equal masses", "sharp.unified", "paper.mean_field"} <= set(panel.lines)
