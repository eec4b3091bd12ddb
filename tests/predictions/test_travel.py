"""Planned sizes against true deviations at every curved operation, and the streams against derivatives."""

import dataclasses
import math

import pytest
import torch

from robust_attn.predictions.certificate import ATTEMPTS, Effort, Rivals, _Chance
from robust_attn.predictions.influence import Influence
from robust_attn.predictions.plan import SLACK, Plan
from robust_attn.predictions.scalar_functions import Gelu, Tanh
from robust_attn.predictions.sketch import Draws, Sample
from robust_attn.predictions.travel import Checker, Planner, confirmed, planned
from robust_attn.predictions.walks import FirstSketch, Streams, started, walk
from tests.cases import generator
from tests.predictions.cases import normal, random_network
from tests.selection import at_first


def functions_of(network):
    """Scalar functions of blocks and head."""
    return [block.mlp.activation for block in network.blocks] + [
        each for each in network.head if not hasattr(each, "weight")
    ]


def prepared(seed: int, *, deterministic: bool, probability: float = 1e-9):
    network, points = random_network(seed, tokens=2, largest_width=4 if deterministic else 8)
    tape = network.tape(points)
    free = torch.ones_like(points)
    chance = _Chance(tape, probability, Effort(samples=96, planning=96), seed, deterministic)
    read = Rivals.of(tape.logits).margins
    draws = chance.draws(free)
    sketch = FirstSketch.of(tape, started(draws, free), draws, read)
    return tape, free, chance, read, sketch, Influence.of(tape, sketch)


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


def planned_ranges(tape, sketch, plan, draws, *, influence, monkeypatch):
    """Ranges that a plan rests on."""
    planner = Planner(tape, sketch, plan, draws, influence)
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
    tape, free, chance, _, sketch, influence = prepared(seed, deterministic=deterministic)
    points, radius = tape.value(0), 2e-4
    draws = chance.draws(free, planning=True)
    seen = planned_ranges(
        tape, sketch, Plan(radius, not deterministic, SLACK), draws, influence=influence, monkeypatch=monkeypatch
    )
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
    tape, free, chance, read, sketch, influence = prepared(1, deterministic=deterministic)
    draws = chance.draws(free, planning=True)
    wide = {kind: 2 * each for kind, each in SLACK.items()}
    plan, hoped = planned(tape, sketch, Plan(0.003, not deterministic, wide), draws, read, influence=influence)
    margins = checked(tape, sketch, plan, chance, read, free=free)
    assert margins.worst <= 1
    assert bool((margins.total <= hoped.total * 2).all())
    smaller = dataclasses.replace(plan, sizes=[each / 4 for each in plan.sizes])
    assert checked(tape, sketch, smaller, chance, read, free=free).worst > 1


def checked(tape, sketch, plan, chance, read, *, free):
    draws = chance.draws(free)
    return confirmed(tape, sketch, plan, draws, read, start=started(draws, free))


def test_what_is_not_a_number_is_never_confirmed():
    tape, free, chance, read, sketch, influence = prepared(1, deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.003, True), chance.draws(free, planning=True), read, influence=influence)
    broken = dataclasses.replace(plan, sizes=[each * torch.nan for each in plan.sizes])
    assert checked(tape, sketch, broken, chance, read, free=free).worst == torch.inf


def test_the_second_order_of_a_basis_is_the_hessian():
    """With all pairs of unit vectors, a margin's second order is half the Frobenius norm of its Hessian."""
    tape, _, _, read, sketch, _ = prepared(2, deterministic=True)
    points = tape.value(0)

    def margins(x):
        return read(tape.replayed(x)[-1])

    for index in range(len(margins(points))):
        with torch.enable_grad():
            gradient = torch.func.grad(lambda x, index=index: margins(x)[index])(points)
            hessian = torch.autograd.functional.hessian(lambda x, index=index: margins(x)[index], points)
        assert float(sketch.margins.ranges[0][index]) == pytest.approx(float(gradient.norm()), rel=1e-5)
        assert float(sketch.margins.ranges[1][index]) == pytest.approx(float(hessian.norm()) / 2, rel=1e-5)


def test_the_checker_reads_what_the_planner_wrote_in_the_same_order():
    tape, free, chance, read, sketch, influence = prepared(3, deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.002, True), chance.draws(free, planning=True), read, influence=influence)
    draws = chance.draws(free)
    checker = Checker(tape, sketch, plan, draws)
    checker.travel(started(draws, free))
    assert next(checker._written, None) is None


def test_the_failure_probability_pays_for_every_inequality(monkeypatch):
    """Ranges, rows and norms that a certificate rests on, counted while it is made, times what each may fail by."""
    tape, free, chance, read, sketch, influence = prepared(3, deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.002, True), chance.draws(free, planning=True), read, influence=influence)
    seen = {"norms": 0, "ranges": 0}
    settled, norm = Checker._settled, Sample.norm

    def counted_settled(self, guess, kind, *, promised=True):
        seen["ranges"] += guess.numel() if promised and kind in ("z", "w", "v") else 0
        return settled(self, guess, kind, promised=promised)

    def counted_norm(self, weights):
        seen["norms"] += 1
        return norm(self, weights)

    monkeypatch.setattr(Checker, "_settled", counted_settled)
    monkeypatch.setattr(Sample, "norm", counted_norm)
    checked(tape, sketch, plan, chance, read, free=free)
    margins = tape.logits.numel() - 1
    orders = [each for all_orders in sketch.inputs.values() for each in all_orders]
    first = sum(part.numel() for each in orders for part in (*each.ranges, *(each.rows or ()))) + 4 * margins
    assert min(seen.values()) > 50
    spent = (
        chance._range * (first + ATTEMPTS * (seen["ranges"] + 3 * margins)) + chance._norm * ATTEMPTS * seen["norms"]
    )
    assert spent <= chance.probability


def derivatives_along(tape, step, count):
    """D^k x[step, ..] / k! of the logits for k = 1 .. count, by forward differentiation."""

    def derivative(function):
        return lambda t: torch.func.jvp(function, (t,), (torch.ones((), dtype=torch.float64),))[1]

    function, found = lambda t: tape.replayed(tape.value(0) + t * step)[-1], []
    for power in range(1, count + 1):
        function = derivative(function)
        found.append(function(torch.zeros((), dtype=torch.float64)) / math.factorial(power))
    return found


SMOOTH = [seed for seed in range(40) if all(type(o) in (Gelu, Tanh) for o in functions_of(random_network(seed)[0]))]


@pytest.mark.parametrize("seed", SMOOTH[:5])
def test_the_same_direction_in_all_lists_gives_four_derivatives(seed):
    """No source of an order is missing and none is counted twice; functions whose fourth derivative is known."""
    network, points = random_network(seed)
    tape, step = network.tape(points), normal(generator(seed), *points.shape)
    end = walk(tape, Streams(step.expand(4, *step.shape).clone()), lambda *arguments: arguments[3])
    streams = end.u[:1], end.s[:1], end.t, end.q
    for found, expected in zip(streams, derivatives_along(tape, step, 4), strict=True):
        torch.testing.assert_close(found[0], expected, rtol=1e-8, atol=1e-10)


def test_products_with_what_was_injected_are_mixed_derivatives():
    """w and v are those of the logits in the injected vectors once, in the input once and twice; one direction."""
    tape, free, chance, read, sketch, influence = prepared(SMOOTH[0], deterministic=False)
    plan, _ = planned(tape, sketch, Plan(0.002, True), chance.draws(free, planning=True), read, influence=influence)
    draws = KeptDraws(chance.draws(free))
    checker = Checker(tape, sketch, plan, draws)
    fresh = started(draws, free)
    start = dataclasses.replace(fresh, u=torch.cat([fresh.u.chunk(4)[0]] * 4))
    end = checker.travel(start)
    noise = iter(draws.kept)
    injected = {index: next(noise) for index, mass in plan.masses.items() if mass > 0}

    def logits(x, size):
        values = []
        for index, node in enumerate(tape.nodes):
            read = [values[parent] for parent in node.parents]
            value = x if node.operation is None else node.operation.value(*read)
            values.append(value + size * injected[index][0] if index in injected else value)
        return values[-1]

    zero, one = torch.zeros((), dtype=torch.float64), torch.ones((), dtype=torch.float64)

    def along(x):
        return torch.func.jvp(lambda size: logits(x, size), (zero,), (one,))[1]

    def mixed(x):
        return torch.func.jvp(along, (x,), (start.u[0],))[1]

    first, (once, twice) = along(tape.value(0)), torch.func.jvp(mixed, (tape.value(0),), (start.u[0],))
    torch.testing.assert_close(end.z[0], first)
    torch.testing.assert_close(end.w[0], once, rtol=1e-8, atol=1e-14)
    torch.testing.assert_close(end.v[0], twice / 2, rtol=1e-8, atol=1e-14)


class KeptDraws(Draws):
    """Draws that remember what was injected."""

    lists = 4

    def __init__(self, draws) -> None:
        self._draws, self.kept = draws, []

    def basis(self, free):
        return self._draws.basis(free)

    def chain(self, order, lists):
        return self._draws.chain(order, lists)

    def injected(self, order):
        return self._draws.injected(order)

    def tangents(self, free):
        return self._draws.tangents(free)

    def injection(self, axes):
        self.kept.append(self._draws.injection(axes))
        return self.kept[-1].clone()
