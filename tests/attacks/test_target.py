import torch

from robust_attn.attacks.move import Move
from robust_attn.attacks.target import Proposal, Starts, Steps, best_of
from robust_attn.budget import Wasserstein
from tests.attacks.laws import LAYER, target_of, tokens
from tests.cases import generator


def proposal(values: list[float], place: float, *, steps: int = 1, copies: int = 1) -> Proposal:
    base = tokens().split(copies)
    history = (torch.zeros(2).double(),) * (steps - 1) + (torch.tensor(values).double(),)
    return Proposal(base, torch.full_like(base.points, place), history)


def test_every_sample_keeps_its_best_with_the_history_of_that_one():
    best = best_of(iter([proposal([1.0, 5.0], 0.1), proposal([2.0, 3.0], 0.2, steps=3)]))
    assert best.points[:, 0, 0].tolist() == [0.2, 0.1]
    assert [values.tolist() for values in best.history] == [[0.0, 5.0], [0.0, 5.0], [2.0, 5.0]]


def test_samples_of_different_length_are_written_with_the_largest():
    best = best_of(iter([proposal([1.0, 5.0], 0.1), proposal([2.0, 3.0], 0.2, copies=2)]))
    assert best.points[:, :, 0].tolist() == [[0.2] * 8, [0.1] * 8]
    torch.testing.assert_close(LAYER(best.base), LAYER(tokens()).repeat_interleave(2, dim=1))


def test_what_was_not_followed_is_not_chosen():
    followed = proposal([1.0, 1.0], 0.1)
    assert best_of(iter([Proposal(tokens(), tokens().points), followed])) is followed


def test_an_attack_that_is_listened_to_is_the_same_attack_step_by_step():
    calls = []
    alone = Move(steps=7)(LAYER, tokens(), Wasserstein(0.01))
    seen = Move(steps=7)(LAYER, tokens(), Wasserstein(0.01), on_step=lambda: calls.append(1))
    assert torch.equal(seen.measure.points, alone.measure.points)
    assert len(calls) >= len(alone.history)


def test_gradients_are_counted_for_a_sample_over_all_starts():
    """Three starts of two samples at the start and after each of two steps: nine gradients in three steps."""
    target, budget, calls = target_of("layer"), Wasserstein(0.1), []
    target.steps.on_step = lambda: calls.append(1)
    fields = torch.stack([budget.sample(target.measure, generator(seed)) for seed in range(3)])
    (found,) = target.proposals(Starts(target.measure, budget, fields), steps=2)
    assert (target.steps.gradients, len(calls), len(found.history)) == (9, 3, 3)
    target = target_of("loss")
    assert len(list(target.proposals(Starts(target.measure, budget, fields), steps=2))) == 3
    assert target.steps.gradients == 9


def test_fixed_starts_are_proposed_as_they_are():
    target = target_of("loss")
    field = torch.full_like(target.measure.points, 0.01)
    (found,) = target.proposals(Starts(target.measure, Wasserstein(1.0), field[None], fixed=True), steps=9)
    assert torch.equal(found.points, target.measure.points + field)
    assert (found.history, target.steps.gradients) == ((), 0)


def test_nobody_has_to_listen():
    steps = Steps()
    steps.add(4)
    assert steps.gradients == 4
