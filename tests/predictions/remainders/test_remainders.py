"""Half axes of remainders against exact remainders, at random and under ascent."""

import pytest
import torch

from robust_attn.predictions.affine import CentreLogits
from robust_attn.predictions.remainders.activations import Elementwise
from robust_attn.predictions.remainders.attention import Softmax, interval_weights
from robust_attn.predictions.remainders.ellipsoids import lifted, together
from robust_attn.predictions.remainders.products import Gate, Logits, MeanSquare, Mix, Scale
from robust_attn.predictions.scalar_functions import Gelu, InverseRoot, Relu, Silu, Tanh, TanhGelu
from tests.cases import generator
from tests.predictions.ellipsoid_look import Deviations, ExactLook, largest_excess
from tests.selection import at_first

HEADS, N, WIDTH = 2, 3, 4
SHAPES = {
    Logits: [(HEADS, N, WIDTH), (HEADS, N, WIDTH)],
    Mix: [(HEADS, N, N), (HEADS, N, WIDTH)],
    Scale: [(N, WIDTH), (N, 1)],
    Gate: [(N, WIDTH), (N, WIDTH)],
    MeanSquare: [(N, WIDTH)],
}
SIZES = [(0.3, 0.05, 0.1), (0.1, 0.1, 0.0), (0.02, 0.3, 0.3), (1.0, 0.01, 0.01)]
SEEDS = at_first(range(3), 1)


def values(shapes, seed):
    return [torch.randn(*shape, generator=generator(seed), dtype=torch.float64) for shape in shapes]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "operation", [Logits(0.7), Mix(), Scale(), Gate(), MeanSquare(1e-3)], ids=lambda o: type(o).__name__
)
def test_products(operation, sizes, seed):
    shapes = SHAPES[type(operation)]
    deviations = Deviations.random(shapes, sizes, seed)
    assert largest_excess(operation, values(shapes, seed), deviations, ExactLook(deviations), seed) <= 1 + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("function", [Gelu(), TanhGelu(), Silu(), Tanh(), Relu()], ids=lambda f: type(f).__name__)
def test_scalar_functions(function, sizes, seed):
    at = values([(N, WIDTH)], seed)
    deviations = Deviations.random([(N, WIDTH)], sizes, seed)
    assert largest_excess(Elementwise(function), at, deviations, ExactLook(deviations), seed) <= 1 + 1e-9


@pytest.mark.parametrize("sizes", [(0.1, 0.02, 0.02), (0.02, 0.1, 0.1), (0.2, 0.0, 0.0)])
def test_inverse_root(sizes):
    for seed in range(4):
        at = [values([(N, 1)], seed)[0].square() + 1.5]
        deviations = Deviations.random([(N, 1)], sizes, seed)
        assert largest_excess(Elementwise(InverseRoot()), at, deviations, ExactLook(deviations), seed) <= 1 + 1e-9


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("sharpness", [0.3, 3.0])
def test_softmax(sizes, sharpness, causal, seed):
    operation = Softmax(torch.ones(N, N, dtype=torch.bool).tril() if causal else None)
    raw = sharpness * values([(HEADS, N, N)], seed)[0]
    centre = CentreLogits(operation.value(raw))
    at = [centre.value(raw)]
    torch.testing.assert_close(operation.value(*at), operation.value(raw))
    deviations = Deviations.random([(HEADS, N, N)], sizes, seed, projections=[centre.linear])
    look = ExactLook(deviations, operation.row_weights(at))
    assert largest_excess(operation, at, deviations, look, seed) <= 1 + 1e-9


@pytest.mark.parametrize("kind", ["gelu", "tanh", "inverse root", "softmax"])
def test_cubic_terms(kind):
    """D^3 f[y, y, y] / 6 is in its ellipsoid: what a certificate that does not follow products must add."""
    for seed in range(6):
        raw = 2 * values([(HEADS, N, N)], seed)[0]
        functions = {"gelu": Gelu(), "tanh": Tanh(), "inverse root": InverseRoot()}
        operation = Elementwise(functions[kind]) if kind in functions else Softmax()
        centre = CentreLogits(torch.softmax(raw, -1))
        at = [raw.abs() + 1 if kind == "inverse root" else centre.value(raw)]
        deviations = Deviations.random([(HEADS, N, N)], (0.5, 0.0, 0.0), seed, projections=[centre.linear])
        axes = operation.cubic(at, ExactLook(deviations, torch.softmax(raw, -1).sqrt()))
        g = generator(seed)
        sizes = []
        for _ in range(200):
            y, _, _ = deviations.at(torch.randn(3, deviations.columns, generator=g, dtype=torch.float64))
            y = [each[None] for each in y]
            sizes.append(float((operation.third(at, y, y, y)[0] / 6 / axes).norm()))
        assert 0.005 < max(sizes) <= 1 + 1e-9


def test_interval_weights_hold_on_the_box():
    g = generator(0)
    logits, reach = (
        torch.randn(5, 4, generator=g, dtype=torch.float64),
        torch.rand(5, 4, generator=g, dtype=torch.float64),
    )
    weights = torch.softmax(logits, -1)
    upper, growth = interval_weights(weights, reach)
    for _ in range(200):
        moved = torch.softmax(logits + reach * (2 * torch.rand(5, 4, generator=g, dtype=torch.float64) - 1), -1)
        assert bool((moved <= upper).all())
        assert bool((moved / weights <= growth).all())


def test_a_sum_of_ellipsoids_is_inside():
    g = generator(1)
    a, b = (torch.rand(6, generator=g, dtype=torch.float64) for _ in range(2))
    outer = together(a, b)
    for _ in range(500):
        u, v = (torch.randn(6, generator=g, dtype=torch.float64) for _ in range(2))
        point = a * u / u.norm() + b * v / v.norm()
        assert float((point / outer).norm()) <= 1 + 1e-12
    assert float(((a + b) / outer).norm()) > 0
    torch.testing.assert_close(together(a, torch.zeros(6, dtype=torch.float64)), a)


def test_one_product_by_hand():
    """One entry, y = 0.3, c = 0.1, rest 0.2: y c + c y + e e = 0.03 + 0.03 + 0.09, and the axes add up to that."""
    column = torch.ones(1, 1, 1, dtype=torch.float64)
    deviations = Deviations([0.3 * column] * 2, [0.1 * column] * 2, [0.2 * column] * 2, 1)
    axes = Gate().remainder([column[..., 0]] * 2, ExactLook(deviations))
    assert float(axes) == pytest.approx(0.15)


def test_lifted_sizes_can_be_divided_by():
    assert lifted(torch.zeros(3)).tolist() == [1, 1, 1]
    assert float(lifted(torch.tensor([0.0, 2.0])).min()) > 0
