import torch

from robust_attn.attacks.quasi_newton import PAIRS, Memory, dot
from tests.cases import generator


def quadratic(samples: int = 3, size: int = 4) -> tuple[torch.Tensor, torch.Tensor]:
    """Falls of the slope per step of concave quadratics: symmetric positive matrices, one a sample; and a slope."""
    root = torch.randn(samples, size, size, generator=generator(0), dtype=torch.float64)
    return root @ root.mT + torch.eye(size), torch.randn(samples, size, 1, generator=generator(1), dtype=torch.float64)


def test_as_many_pairs_as_dimensions_give_the_newton_step():
    """Conjugate steps with exact falls: BFGS knows the inverse on their span (Nocedal and Wright, theorem 6.4)."""
    curvature, slope = quadratic()
    _, vectors = torch.linalg.eigh(curvature)
    memory = Memory.empty(slope)
    for index in range(4):
        step = vectors[..., index : index + 1]
        memory = memory.with_pair(step, curvature @ step)
    assert torch.allclose(memory.direction(slope), torch.linalg.solve(curvature, slope))


def test_the_direction_goes_uphill_whatever_the_pairs():
    memory = Memory.empty(torch.zeros(5, 3, 2, dtype=torch.float64))
    g = generator(3)
    for _ in range(PAIRS + 4):
        pair = torch.randn(2, 5, 3, 2, generator=g, dtype=torch.float64)
        memory = memory.with_pair(*pair)
        slope = torch.randn(5, 3, 2, generator=g, dtype=torch.float64)
        known = memory.length > 0
        assert (dot(memory.direction(slope), slope)[known] > 0).all()
    assert len(memory.steps) == len(memory.falls) == PAIRS


def test_a_pair_along_which_the_slope_rises_changes_nothing_for_its_sample_alone():
    curvature, slope = quadratic(2)
    step = slope
    fall = curvature @ step
    fall[1] = -fall[1]
    memory = Memory.empty(slope).with_pair(step, fall)
    assert memory.length[0] > 0
    assert memory.length[1] == 0
    assert torch.equal(memory.direction(slope)[1], torch.zeros_like(slope[1]))


def test_what_is_not_kept_is_forgotten():
    curvature, slope = quadratic(2)
    memory = Memory.empty(slope).with_pair(slope, curvature @ slope)
    half = memory.only(torch.tensor([True, False]))
    assert torch.equal(half.direction(slope)[0], memory.direction(slope)[0])
    assert torch.equal(half.direction(slope)[1], torch.zeros_like(slope[1]))
