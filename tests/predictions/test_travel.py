"""Planned sizes against true deviations at every curved operation, and the streams against derivatives."""

import dataclasses

import pytest
import torch

from robust_attn.predictions.certificate import Effort, _Chance, _rivals
from robust_attn.predictions.plan import Plan
from robust_attn.predictions.sketch import Draws
from robust_attn.predictions.travel import Checker, Planner, confirmed, planned
from robust_attn.predictions.walks import FirstSketch, Streams
from tests.cases import generator
from tests.predictions.cases import normal, random_network
from tests.selection import at_first


def prepared(seed: int, *, deterministic: bool, probability: float = 1e-9):
    network, points = random_network(seed, tokens=2, largest_width=4 if deterministic else 8)
    tape = network.tape(points)
    free = torch.ones_like(points)
    chance = _Chance(tape, probability, Effort(samples=96, planning=96), seed, deterministic)
    _, rivals = _rivals(tape.logits)
    return network, tape, free, chance, rivals, FirstSketch.of(tape, free, chance.draws(free), rivals)


def second_order(tape, step, node):
    """step -> (J step, D^2 x[step, step] / 2) at a node, by forward differentiation twice."""

    def at(t):
        return tape.replayed(tape.value(0) + t * step)[node]

    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)
    first = torch.func.jvp(at, (zero,), (one,))[1]
    twice = torch.func.jvp(lambda t: torch.func.jvp(at, (t,), (one,))[1], (zero,), (one,))[1]
    return first, twice / 2


class _Recorder:
    """Keeps what `ranges` answers, by node and slot."""

    def __init__(self, traveller) -> None:
        self.seen, self._inner, self._visit = {}, traveller.ranges, traveller._visit
        self.node = 0

    def visit(self, index, node, arriving, leaving):
        self.node = index
        return self._visit(index, node, arriving, leaving)

    def ranges(self, slot):
        sizes = self._inner(slot)
        self.seen[self.node, slot] = sizes
        return sizes


def planned_ranges(tape, sketch, plan, draws, monkeypatch):
    """Ranges of y and e that a plan rests on."""
    planner = Planner(tape, sketch, plan, draws)
    recorder = _Recorder(planner)
    monkeypatch.setattr(Planner, "ranges", lambda _, slot: recorder.ranges(slot))
    monkeypatch.setattr(Planner, "_visit", lambda _, *rest: recorder.visit(*rest))
    planner.travel(Streams())
    monkeypatch.undo()
    return recorder.seen


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("seed", at_first(range(6), 1))
@pytest.mark.parametrize("draw", at_first(range(3), 1))
def test_true_deviations_are_where_the_plan_says(seed, draw, deterministic, monkeypatch):
    _, tape, free, chance, _, sketch = prepared(seed, deterministic=deterministic)
    points, radius = tape.value(0), 2e-4
    draws = chance.draws(free, planning=True)
    seen = planned_ranges(tape, sketch, Plan(radius, not deterministic, 1.5), draws, monkeypatch)
    g = generator(seed + 1000 * draw)
    for _ in range(2):
        step = normal(g, *points.shape)
        step = radius * step / step.norm()
        moved = tape.replayed(points + step)
        for (index, slot), sizes in seen.items():
            parent = tape.nodes[index].parents[slot]
            first, second = second_order(tape, step, parent)
            deviation = moved[parent] - tape.value(parent)
            assert bool((first.abs() <= sizes.y + 1e-12).all())
            assert bool(((deviation - first).abs() <= sizes.e + 1e-12).all())
            most = radius**2 * sketch.inputs[index][slot].ranges[1]
            assert bool((second.abs() <= most + 1e-12).all())
            assert bool(((deviation - first - second).abs() <= (sizes.e - most) + 1e-13).all())


@pytest.mark.parametrize("deterministic", [False, True])
def test_a_plan_is_confirmed_by_fresh_samples_and_a_smaller_one_is_not(deterministic):
    _, tape, free, chance, rivals, sketch = prepared(1, deterministic=deterministic)
    plan, hoped = planned(tape, sketch, Plan(0.003, not deterministic, 2.0), chance.draws(free, planning=True), rivals)
    margins = confirmed(tape, sketch, plan, chance.draws(free), rivals, free=free)
    assert margins.worst <= 1
    assert bool((margins.total <= hoped.total * 2).all())
    smaller = dataclasses.replace(plan, sizes=[each / 4 for each in plan.sizes])
    assert confirmed(tape, sketch, smaller, chance.draws(free), rivals, free=free).worst > 1


def test_what_is_not_a_number_is_never_confirmed():
    _, tape, free, chance, rivals, sketch = prepared(1, deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.003, True, 1.5), chance.draws(free, planning=True), rivals)
    broken = dataclasses.replace(plan, sizes=[each * torch.nan for each in plan.sizes])
    assert confirmed(tape, sketch, broken, chance.draws(free), rivals, free=free).worst == torch.inf


def test_the_second_order_of_a_basis_is_the_hessian():
    """With all pairs of unit vectors, a margin's second order is half the Frobenius norm of its Hessian."""
    network, tape, _, _, rivals, sketch = prepared(2, deterministic=True)
    points = tape.value(0)

    def margins(x):
        return rivals @ network.tape(x, detach=False).logits

    for index in range(len(rivals)):
        with torch.enable_grad():
            gradient = torch.func.grad(lambda x, index=index: margins(x)[index])(points)
            hessian = torch.autograd.functional.hessian(lambda x, index=index: margins(x)[index], points)
        assert float(sketch.margins.ranges[0][index]) == pytest.approx(float(gradient.norm()), rel=1e-5)
        assert float(sketch.margins.ranges[1][index]) == pytest.approx(float(hessian.norm()) / 2, rel=1e-5)


def test_the_checker_reads_what_the_planner_wrote_in_the_same_order():
    _, tape, free, chance, rivals, sketch = prepared(3, deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.002, True, 1.5), chance.draws(free, planning=True), rivals)
    checker = Checker(tape, sketch, plan, chance.draws(free))
    u, v = chance.draws(free).tangents(free)
    blocks = 1 + max(node.block for node in tape.nodes)
    checker.travel(Streams(u, v, ys=tuple(chance.draws(free).tangents(free)[0] for _ in range(blocks))))
    assert next(checker._written, None) is None


class OneDirection(Draws):
    """The same direction everywhere and no remainders: streams are then exact derivatives along it."""

    pair = 1.0

    def __init__(self, direction) -> None:
        self._direction = direction

    def basis(self, free):  # noqa: ARG002
        return None

    def linear(self):
        return 1.0

    def chain(self, order):  # noqa: ARG002
        return 1.0

    def tangents(self, free):  # noqa: ARG002
        return self._direction[None], self._direction[None]

    def injection(self, axes):
        return torch.zeros((1, *axes.shape), dtype=torch.float64)


@pytest.mark.parametrize("seed", [seed for seed in range(20) if len(random_network(seed)[0].blocks) == 1][:8])
def test_followed_products_of_one_block_are_the_third_derivative(seed):
    """W = D^3 x[delta, delta, delta] / 6 where nothing is injected: no source is missing, none is counted twice."""
    network, points = random_network(seed)
    tape, radius = network.tape(points), 0.003
    free = torch.ones_like(points)
    _, rivals = _rivals(tape.logits)
    chance = _Chance(tape, 1e-9, Effort(samples=32, planning=32), seed, deterministic=False)
    sketch = FirstSketch.of(tape, free, chance.draws(free), rivals)
    plan, _ = planned(tape, sketch, Plan(radius, True, 2.0), chance.draws(free, planning=True), rivals)
    step = normal(generator(seed), *points.shape)
    step = step / step.norm()
    checker = Checker(tape, sketch, plan, OneDirection(step))
    end = checker.travel(Streams(step[None], step[None], ys=(step[None],)))
    scale = (plan.merges[0] * plan.parts[0][0]) ** 0.5 / checker.chain_weight

    def line(t):
        return tape.replayed(points + t * radius * step)[-1]

    def derivative(function):
        return lambda t: torch.func.jvp(function, (t,), (torch.ones((), dtype=torch.float64),))[1]

    third = derivative(derivative(derivative(line)))
    torch.testing.assert_close(end.x[0] * scale, third(torch.zeros((), dtype=torch.float64)) / 6, rtol=1e-8, atol=1e-16)
