import pytest
import torch

from robust_attn.attacks.worst_case import WorstCaseSearch, steepness
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.bounds import paper
from tests.cases import Case, generator, random_layer


def test_gradient_of_the_largest_singular_value():
    """Against central differences of the exact constant (dense SVD)."""
    layer = random_layer(Case(), generator(0))
    points = torch.randn(3, 5, generator=generator(1), dtype=torch.float64)
    found = steepness(layer, TokenMeasure.uniform(points), generator(2))

    def exact(p):
        return torch.linalg.svdvals(layer.linearize(TokenMeasure.uniform(p)).dense())[0]

    direction = torch.randn(3, 5, generator=generator(3), dtype=torch.float64)
    slope = (exact(points + 1e-5 * direction) - exact(points - 1e-5 * direction)) / 2e-5
    assert found.constant == pytest.approx(float(exact(points)), rel=1e-9)
    assert float((found.by_points * direction).sum()) == pytest.approx(float(slope), rel=1e-5)


def test_gradient_by_the_masses():
    """Against central differences of the exact constant in L2 of the measure, along log masses."""
    layer = random_layer(Case(), generator(0))
    points = torch.randn(3, 5, generator=generator(1), dtype=torch.float64)
    logs = torch.randn(3, generator=generator(2), dtype=torch.float64)
    direction = torch.randn(3, generator=generator(3), dtype=torch.float64)

    def exact(log_masses):
        measure = TokenMeasure.weighted(points, log_masses.softmax(-1))
        return torch.linalg.svdvals(ScaledJacobian(layer.linearize(measure), measure.masses).dense())[0]

    found = steepness(layer, TokenMeasure.weighted(points, logs.softmax(-1)), generator(4))
    slope = (exact(logs + 1e-5 * direction) - exact(logs - 1e-5 * direction)) / 2e-5
    assert float((found.by_log_masses * direction).sum()) == pytest.approx(float(slope), rel=1e-4, abs=1e-8)


def test_free_masses_find_the_unbalanced_measure():
    """A = -1 (d = 1), R = 1, atoms free to split: 3.069 with free masses against 1.602 with equal ones (unbalanced)."""
    layer = AttentionLayer.single_head(-torch.eye(1).double(), torch.eye(1).double())
    free = WorstCaseSearch(1.0, steps=80, restarts=4, masses=True, splitting=True)(layer, 2, generator=generator(0))
    equal = WorstCaseSearch(1.0, steps=80, restarts=4)(layer, 2, generator=generator(0))
    assert free.constant > equal.constant * 1.2


def test_stays_in_the_ball_and_never_decreases():
    worst = WorstCaseSearch(0.7, steps=15)(random_layer(Case(), generator(0)), 4, generator=generator(1))
    assert worst.points.norm(dim=-1).max() <= 0.7 * (1 + 1e-12)
    assert list(worst.history) == sorted(worst.history)


def test_beats_the_papers_configuration_it_starts_from():
    A = torch.diag(torch.tensor([-2.0, 0.3])).double()
    layer = AttentionLayer.single_head(A, torch.eye(2).double())
    start = paper.adversarial_tokens(A, radius=1.0, length=6)
    known = steepness(layer, TokenMeasure.uniform(start), generator(0)).constant
    worst = WorstCaseSearch(1.0, steps=20, restarts=0)(layer, 6, generator=generator(0), starts=(start,))
    assert worst.constant >= known * (1 - 1e-9)


def test_a_search_without_starts_is_refused():
    with pytest.raises(ValueError, match="start"):
        WorstCaseSearch(1.0, restarts=0)(random_layer(Case(), generator(0)), 4, generator=generator(1))
