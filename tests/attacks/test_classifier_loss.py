import torch
from torch.nn import functional

from robust_attn.attacks.ascent import climb
from robust_attn.attacks.classifier_loss import climb_all, loss_objective
from robust_attn.attention.measure import TokenMeasure
from robust_attn.budget import Frobenius
from tests.cases import Case, generator, random_measure

WEIGHTS = torch.randn(3, 5, generator=generator(9), dtype=torch.float64)
LABELS = torch.tensor([2, 0])


def logits(measure: TokenMeasure) -> torch.Tensor:
    return (measure.points.tanh() @ WEIGHTS.T).sum(-2)


def test_the_loss_and_its_gradient_are_those_of_torch():
    measure = random_measure(Case(), generator(0))
    displacement = torch.randn(measure.points.shape, generator=generator(1), dtype=torch.float64)
    points = (measure.points + displacement).requires_grad_(True)
    expected = functional.cross_entropy(logits(measure.with_points(points)), LABELS, reduction="none")
    (gradient,) = torch.autograd.grad(expected.sum(), points)
    for targeted, sign in ((False, 1), (True, -1)):
        loss, slope = loss_objective(logits, measure, LABELS, targeted=targeted)(displacement)
        assert torch.allclose(loss, sign * expected)
        assert torch.allclose(slope, sign * gradient)


def test_every_sample_keeps_the_best_of_its_starts_and_the_history_of_that_one():
    measure, budget = random_measure(Case(), generator(0)), Frobenius(0.5)
    objective = loss_objective(logits, measure, LABELS)
    starts = [budget.sample(measure, generator(seed)) for seed in range(3)]
    alone = [climb(objective, measure, budget, start, steps=3) for start in starts]
    best = climb_all(objective, measure, budget, starts, steps=3)
    values = torch.stack([each.output_change for each in alone])
    assert torch.equal(best.output_change, values.amax(0))
    assert torch.equal(best.history[-1], best.output_change)
    assert torch.equal(objective(best.displacement)[0], best.output_change)
    assert best.gradients == sum(each.gradients for each in alone)
