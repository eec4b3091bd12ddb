import pytest

from robust_attn.tasks.radius import RadiusTask

STUDY = RadiusTask(radii=(0.5, 2.0), tokens=5, steps=4, restarts=1)


@pytest.fixture(scope="module")
def records():
    return list(STUDY.measured(seed=0))


def test_the_search_is_never_below_its_starts_nor_above_a_bound(records):
    assert {record.verdict for record in records} == {"HOLDS"}
    for radius in (0.5, 2.0):
        found = {r.configuration: r.lipschitz.lower for r in records if r.radius == radius}
        assert set(found) == {"paper", "one_key", "two_key", "search"}
        assert found["search"] >= max(found.values()) * (1 - 1e-6)


def test_findings_and_panel(records):
    reached = STUDY.findings(records)["reached"]
    assert [entry["radius"] for entry in reached] == [0.5, 2.0]
    assert all(0 < entry["of_paper_discrete"] <= entry["of_smallest_bound"] <= 1 for entry in reached)
    (panel,) = STUDY.panels(records)
    assert [x for x, _ in panel.rows()] == [0.5, 2.0]
    assert "sharp.two_key_lower" in panel.dashed
