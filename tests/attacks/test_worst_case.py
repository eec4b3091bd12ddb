import pytest
import torch

from robust_attn.attacks.worst_case import WorstCaseSearch, steepness
from robust_attn.attention.layer import AttentionLayer
from robust_attn.bounds import paper
from tests.cases import Case, generator, random_layer


def test_gradient_of_the_largest_singular_value():
    """Against central differences of the exact constant (dense SVD)."""
    layer = random_layer(Case(), generator(0))
    points = torch.randn(3, 5, generator=generator(1), dtype=torch.float64)
    value, gradient = steepness(layer, points, generator(2))

    def exact(p):
        from robust_attn.attention.measure import TokenMeasure

        return torch.linalg.svdvals(layer.linearize(TokenMeasure.uniform(p)).dense())[0]

    direction = torch.randn(3, 5, generator=generator(3), dtype=torch.float64)
    slope = (exact(points + 1e-5 * direction) - exact(points - 1e-5 * direction)) / 2e-5
    assert value == pytest.approx(float(exact(points)), rel=1e-9)
    assert float((gradient * direction).sum()) == pytest.approx(float(slope), rel=1e-5)


def test_stays_in_the_ball_and_never_decreases():
    worst = WorstCaseSearch(0.7, steps=15)(random_layer(Case(), generator(0)), 4, generator=generator(1))
    assert worst.points.norm(dim=-1).max() <= 0.7 * (1 + 1e-12)
    assert list(worst.history) == sorted(worst.history)


def test_beats_the_papers_configuration_it_starts_from():
    A = torch.diag(torch.tensor([-2.0, 0.3])).double()
    layer = AttentionLayer.single_head(A, torch.eye(2).double())
    start = paper.adversarial_tokens(A, radius=1.0, length=6)
    known, _ = steepness(layer, start, generator(0))
    worst = WorstCaseSearch(1.0, steps=20, restarts=0)(layer, 6, generator=generator(0), starts=(start,))
    assert worst.constant >= known * (1 - 1e-9)


def test_a_search_without_starts_is_refused():
    with pytest.raises(ValueError, match="start"):
        WorstCaseSearch(1.0, restarts=0)(random_layer(Case(), generator(0)), 4, generator=generator(1))
