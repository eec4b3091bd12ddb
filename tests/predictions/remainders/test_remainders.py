"""Half axes of remainders against exact remainders, at random and under ascent."""

import math

import pytest
import torch

from robust_attn.predictions.affine import CentreLogits
from robust_attn.predictions.remainders.activations import Elementwise
from robust_attn.predictions.remainders.attention import Softmax, _mean_square, centred_weights, interval_weights
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
SIZES = [
    (0.3, 0.1, 0.05, 0.1, 0.0),
    (0.1, 0.0, 0.1, 0.0, 0.1),
    (0.02, 0.3, 0.3, 0.3, 0.3),
    (1.0, 0.1, 0.01, 0.01, 0.02),
    (0.3, 0.3, 0.0, 0.0, 0.05),
]
"""Of y, s, c, the rest of k and the rest of h."""
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


@pytest.mark.parametrize(
    "sizes", [(0.1, 0.05, 0.02, 0.02, 0.01), (0.02, 0.05, 0.1, 0.1, 0.1), (0.2, 0.0, 0.0, 0.0, 0.0)]
)
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


KINDS = {"gelu": Gelu(), "tanh": Tanh(), "silu": Silu(), "inverse root": InverseRoot()}


def largest_power(kind, seed, size, power) -> float:
    """The largest |D^3 f[y, y, y] / 6 + D^4 f[y, y, y, y] / 24| over its half axes, one of the two alone if asked."""
    raw = 2 * values([(HEADS, N, N)], seed)[0]
    operation = Elementwise(KINDS[kind]) if kind in KINDS else Softmax()
    centre = CentreLogits(torch.softmax(raw, -1))
    at = [raw.abs() + 1 if kind == "inverse root" else centre.value(raw)]
    deviations = Deviations.random([(HEADS, N, N)], (size, 0.0, 0.0, 0.0, 0.0), seed, projections=[centre.linear])
    axes = operation.powers(at, ExactLook(deviations, torch.softmax(raw, -1).sqrt()))
    g, largest = generator(seed), 0.0
    for _ in range(200):
        y = [
            each[None]
            for each in deviations.at(torch.randn(5, deviations.columns, generator=g, dtype=torch.float64))[0]
        ]
        quartic = operation.fourth(at, y, y, y, y)
        terms = {3: operation.third(at, y, y, y) / 6, 4: torch.zeros(()) if quartic is None else quartic / 24}
        total = sum(terms.values()) if power is None else terms[power]
        largest = max(largest, float((total[0] / axes).norm()))
    return largest


@pytest.mark.parametrize("kind", [*KINDS, "softmax"])
def test_powers(kind):
    """The third and fourth powers of the first order: what a certificate that does not follow products must add."""
    for seed in range(4):
        assert 0.005 < largest_power(kind, seed, 0.5, None) <= 1 + 1e-9


def test_one_third_power_by_hand():
    """One entry, |y| <= 0.3 at u = 1.2: exactly third(u) 0.3^3 / 6 + fourth(u) 0.3^4 / 24 in absolute values."""
    column, u = torch.ones(1, 1, 1, dtype=torch.float64), torch.full((1, 1), 1.2, dtype=torch.float64)
    deviations = Deviations([0.3 * column], *([0 * column] for _ in range(4)), 1)
    expected = Gelu().third(u).abs() * 0.3**3 / 6 + Gelu().fourth(u).abs() * 0.3**4 / 24
    torch.testing.assert_close(Elementwise(Gelu()).powers([u], ExactLook(deviations)), expected)


@pytest.mark.parametrize("kind", ["gelu", "tanh", "inverse root", "softmax"])
def test_fourth_derivatives_in_four_directions(kind):
    operation = Elementwise(KINDS[kind]) if kind in KINDS else Softmax()
    raw, *along = (each[0] for each in (values([(HEADS, N, N)], seed) for seed in range(5)))
    at = raw.abs() + 1 if kind == "inverse root" else raw

    def derivative(function, direction):
        return lambda x: torch.func.jvp(function, (x,), (direction,))[1]

    function = operation.value
    for direction in along:
        function = derivative(function, direction)
    found = operation.fourth([at], *([each[None]] for each in along))[0]
    torch.testing.assert_close(found, function(at), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("function", [Gelu(), Tanh(), InverseRoot()], ids=lambda f: type(f).__name__)
def test_the_fifth_derivative_stays_below_its_bound_on_every_interval(function):
    grid = torch.linspace(0.3, 9, 4001, dtype=torch.float64)
    grid = (
        grid if isinstance(function, InverseRoot) else torch.cat([-grid.flip(0), torch.linspace(-0.3, 0.3, 301), grid])
    )
    fifth = torch.func.jvp(function.fourth, (grid,), (torch.ones_like(grid),))[1].abs()
    for reach in (0.0, 0.05, 0.25):
        for centre in grid[::40]:
            near = (grid - centre).abs() <= reach
            assert float(fifth[near].max()) <= float(function.fifth_upper(centre, torch.as_tensor(reach))) * (1 + 1e-9)


def test_interval_weights_hold_on_the_box():
    g = generator(0)
    logits, reach = (
        torch.randn(5, 4, generator=g, dtype=torch.float64),
        torch.rand(5, 4, generator=g, dtype=torch.float64),
    )
    weights = torch.softmax(logits, -1)
    upper = interval_weights(weights, reach)
    for _ in range(200):
        moved = torch.softmax(logits + reach * (2 * torch.rand(5, 4, generator=g, dtype=torch.float64) - 1), -1)
        assert bool((moved <= upper).all())


def centred_deviation(weights, reach, g):
    """A corner of the box, moved to mean zero under the weights and shrunk back into the box."""
    d = reach * torch.randn(reach.shape, generator=g, dtype=torch.float64).sign()
    d = d - (weights * d).sum(-1, keepdim=True)
    return d / (d.abs() / reach).amax(-1, keepdim=True).clamp(min=1)


@pytest.mark.parametrize("sharpness", [0.3, 4.0])
def test_weights_of_centred_logits_hold_and_are_nearly_reached(sharpness):
    g = generator(1)
    logits = sharpness * torch.randn(40, 5, generator=g, dtype=torch.float64)
    reach = 2 * torch.rand(40, 5, generator=g, dtype=torch.float64)
    weights = torch.softmax(logits, -1)
    upper, closest = centred_weights(weights, reach), 0.0
    assert bool((upper <= interval_weights(weights, reach)).all())
    for share in (0.3, 1.0):
        for _ in range(100):
            moved = torch.softmax(logits + share * centred_deviation(weights, reach, g), -1)
            assert bool((moved <= upper * (1 + 1e-12)).all())
            closest = max(closest, float((moved / upper).max()))
    assert closest > 0.9


def test_mean_squares_under_grown_weights():
    """Any d within its sizes and of the given spread; attained where one growth is that of all."""
    g = generator(2)
    weights = torch.softmax(3 * torch.randn(30, 6, generator=g, dtype=torch.float64), -1)
    growth = 1 + 5 * torch.rand(30, 6, generator=g, dtype=torch.float64).square()
    sizes = torch.rand(30, 6, generator=g, dtype=torch.float64)
    for _ in range(100):
        d = sizes * (2 * torch.rand(30, 6, generator=g, dtype=torch.float64) - 1)
        spread = (weights * d.square()).sum(-1, keepdim=True).sqrt()
        exact = (weights * growth * d.square()).sum(-1, keepdim=True)
        assert bool((exact <= _mean_square(weights, growth, sizes, spread) * (1 + 1e-12)).all())
    one = _mean_square(weights, torch.full_like(growth, 2.0), sizes, spread)
    torch.testing.assert_close(one, 2 * spread.square())


def test_one_mean_square_by_hand():
    """P = (.99, .01), growths (1, 3), sizes (1, 1), spread .1: t = 1 leaves 1 * .01 + .01 * (3 - 1) * 1 = .03."""
    row = [torch.tensor([each], dtype=torch.float64) for each in ((0.99, 0.01), (1.0, 3.0), (1.0, 1.0), (0.1,))]
    assert float(_mean_square(*row)) == pytest.approx(0.03)


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
    """One entry, y = .3, s = .5, c = .1, k = .3, h = .4: y c + c y + s k + k s + h h = .03 + .03 + .15 + .15 + .16."""
    column = torch.ones(1, 1, 1, dtype=torch.float64)
    deviations = Deviations(*([size * column] * 2 for size in (0.3, 0.5, 0.1, 0.2, 0.1)), 1)
    axes = Gate().remainder([column[..., 0]] * 2, ExactLook(deviations))
    assert float(axes) == pytest.approx(0.52)


def test_lifted_sizes_can_be_divided_by():
    assert lifted(torch.zeros(3)).tolist() == [1, 1, 1]
    assert float(lifted(torch.tensor([0.0, 2.0])).min()) > 0


def test_what_is_visible_has_a_weight_however_small():
    """Logits 0 and -900, and a third that is hidden: the second is rounded to zero, but may rise by hundreds."""
    operation = Softmax(torch.tensor([[True, True, False]]))
    logits = torch.tensor([[0.0, -900.0, 0.0]]).double()
    assert operation.value(logits).tolist() == [[1.0, 0.0, 0.0]]
    found = operation.at_most(logits)[0].tolist()
    assert found[0] == 1.0
    assert 0 < found[1] <= 1e-300
    assert found[2] == 0.0
    low, high = operation.interval((logits - 600,), (logits + 600,))
    assert float(low[0, 0]) <= 1 / (1 + math.exp(300))
    assert float(high[0, 1]) >= 1 - 1e-12
