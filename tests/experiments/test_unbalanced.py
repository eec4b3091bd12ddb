import pytest
import torch

from robust_attn.experiments.study import single_head
from robust_attn.experiments.unbalanced import Unbalanced, split_constants, worst_measure
from robust_attn.spectral.lipschitz import split_lipschitz
from tests.cases import Case, generator, one_sample, random_layer, random_measure, scalar_layer, scalar_measure

STUDY = Unbalanced(A=[[-1.0]], atoms=[2], radii=[1.0, 2.0], steps=60, restarts=4)


@pytest.fixture(scope="module")
def records():
    return list(STUDY.records(seed=0))


@pytest.mark.parametrize("masses", ["uniform", "unequal"])
def test_constants_are_those_of_the_engine(masses):
    case = Case(masses=masses)
    layer, measure = random_layer(case, generator(0)), random_measure(case, generator(1))
    engine = split_lipschitz(layer, measure, generator=generator(2)).lower
    assert torch.allclose(split_constants(layer, measure), engine, rtol=1e-8)


def test_splitting_counts():
    """Tokens (0, 1), A = -8: 2, where moving has 1.853."""
    found = split_constants(scalar_layer(-8.0), one_sample(scalar_measure([0.0, 1.0])))
    assert float(found) == pytest.approx(2.0, rel=1e-9)


def test_free_masses_beat_equal_ones_below_the_bounds(records):
    assert {record["verdict"] for record in records} == {"HOLDS"}
    for radius in (1.0, 2.0):
        found = {r["configuration"]: r for r in records if r["radius"] == radius}
        free, equal = found["free masses"], found["equal masses"]
        assert free["lipschitz"]["lower"] > 1.5 * equal["lipschitz"]["lower"]
        assert sum(free["masses"]) == pytest.approx(1.0)
        assert free["masses"][0] > 0.8
        assert equal["masses"] == [0.5, 0.5]
        assert all(abs(x) <= radius * (1 + 1e-9) for (x,) in free["points"])


def test_the_search_ends_where_it_says():
    worst = worst_measure(single_head([[-1.0]]), 3, 1.5, free=True, steps=10, restarts=2, generator=generator(0))
    again = split_constants(single_head([[-1.0]]), one_sample(worst.measure))
    assert float(again) == pytest.approx(worst.constant, rel=1e-9)


def test_findings_and_panel(records):
    steepest = STUDY.findings(records)["steepest"]
    assert [(entry["radius"], entry["configuration"]) for entry in steepest] == [
        (radius, kind) for radius in (1.0, 2.0) for kind in ("free masses", "equal masses")
    ]
    (panel,) = STUDY.panels(records)
    assert {"2 atoms, free masses", "2 atoms, equal masses", "sharp.unified", "paper.mean_field"} <= set(panel.lines)
