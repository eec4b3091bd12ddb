import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.operator import ScaledJacobian
from robust_attn.bounds.joint_norms import joint_norms
from robust_attn.bounds.split_rows import near, split_rows
from robust_attn.bounds.splitting_local import key_part, local_constant, query_change, query_lipschitz
from robust_attn.spectral.lipschitz import QueryPart
from robust_attn.spectral.norms import head_norms
from tests.bounds.slivers import inside, random_slivers
from tests.cases import MORE_CASES, generator, random_layer, random_measure, scalar_layer, scalar_measure

STILL = [case for case in MORE_CASES if not case.rotary and case.masses != "padded"]


def local(layer, sample, eps, support, hull=1e300) -> float:
    rows = split_rows(layer, sample, support=support)
    farthest = torch.full_like(sample.masses, hull)
    return local_constant(rows, head_norms(layer), joint_norms(layer), farthest, eps=eps, support=support)


def test_key_part_by_hand():
    """x = (-1, 1), A = 1, V = 3: P is symmetric with p = e^2/(1 + e^2) on the diagonal, so columns sum to 1, |g| = 1
    and the values' variance is 9 * 4 p (1 - p): (9 + 36 p (1 - p))^{1/2}."""
    layer = scalar_layer(1.0, 3.0)
    rows = split_rows(layer, scalar_measure([-1.0, 1.0]), support=1.0)
    p = 1 / (1 + math.exp(-2))
    expected = math.sqrt(9 + 36 * p * (1 - p))
    assert key_part(rows, head_norms(layer), joint_norms(layer)) == pytest.approx(expected)


def test_curvature_by_hand_where_queries_do_not_matter():
    """A = 0 and a query bias: all logits are 2 x, V = 3, x = (-1, 1), R = 1. P_1 = p = e^4/(1 + e^4), so the
    variance is 36 p (1 - p); t_max = 4 for the atom at -1 and 0 for that at 1, where phi_1 = 1 and phi_2 = 1/2."""
    layer = AttentionLayer.single_head(*torch.tensor([[[0.0]], [[3.0]]]).double(), torch.tensor([2.0]).double())
    p, eps = 1 / (1 + math.exp(-4)), 0.1
    shares, distances = (2 * (1 - p), 2 * p), (6 * p, 6 * (1 - p))
    b = 2 * eps * math.sqrt(2 * p**2 + 2 * (1 - p) ** 2)
    phi_1, phi_2 = (math.expm1(4) / 4, 1.0), ((math.expm1(4) - 4) / 16, 0.5)
    q = eps**2 * 4 * max(share * phi for share, phi in zip(shares, phi_2, strict=True))
    row = math.sqrt(9 + 4 * 36 * p * (1 - p))
    key = min(row * math.sqrt(2 * p), 3 * b / (2 * eps) + 2 * math.sqrt(36 * p * (1 - p) * 2 * p))
    excess = max(math.expm1(b), 1 - 1 / (1 + b + q)) * row * math.sqrt(2 * p)
    terms = [s * (d * 4 * y + 3 * 2 * x) for s, d, x, y in zip(shares, distances, phi_1, phi_2, strict=True)]
    expected = key + excess + eps * math.exp(b) * max(terms)
    assert local(layer, scalar_measure([-1.0, 1.0]), eps, 1.0) == pytest.approx(expected, rel=1e-6)


def test_queries_by_hand():
    """x = (-1, 1), A = 2, V = 3, nothing split: at x_i the slope is V A Var = 6 * 4 p (1 - p), p = e^4/(1 + e^4).

    One atom at 0, A = 2, V = 3, R = 5, eps = 0.1, queries within r = 0.2: |g| <= 0.4, a point draws e^{|A| R r} = e^2
    at most, Z falls by e^{0.04} at most: the slope is V A eps^2 e^{2.04}, and nu changes an output by
    V (eps e^{0.04} + eps^2 e^{0.04} 0.4 (e^2 - 1)/2)."""
    layer = scalar_layer(2.0, 3.0)
    norms, joint = head_norms(layer), joint_norms(layer)
    rows = split_rows(layer, scalar_measure([-1.0, 1.0]), support=1.0)
    p = 1 / (1 + math.exp(-4))
    still = query_lipschitz(rows, norms, joint, near(rows, norms, 0.0, support=1.0), 0.0)
    assert still.tolist() == pytest.approx([24 * p * (1 - p)] * 2)
    rows = split_rows(layer, scalar_measure([0.0]), support=5.0)
    at = near(rows, norms, 0.2, support=5.0)
    assert query_lipschitz(rows, norms, joint, at, 0.1).tolist() == pytest.approx([0.06 * math.exp(2.04)])
    expected = 3 * math.exp(0.04) * (0.1 + 0.01 * 0.4 * math.expm1(2) / 2)
    assert query_change(rows, norms, joint, at, 0.1).tolist() == pytest.approx([expected])


def test_queries_near_one_of_two_atoms_by_hand():
    """x = (-1, 1), A = 1, V = 3, R = 1.5, eps = 0.1, row 1 and queries within r = 0.2 of it, every term written out.

    P = (1-p, p) with mean 2p - 1, which is the mean slope too; logits move by r times the distances d from it."""
    layer, r, eps = scalar_layer(1.0, 3.0), 0.2, 0.1
    p = 1 / (1 + math.exp(-2))
    d = (2 * p, 2 * (1 - p))
    high = [w * math.exp(r * d[j]) for j, w in enumerate((1 - p, p))]
    low = [w * math.exp(-r * d[j]) for j, w in enumerate((1 - p, p))]
    U = (high[0] / (high[0] + low[1]), high[1] / (high[1] + low[0]))
    g, peak = 1 + r, math.exp(1.5 + r * (1.5 + 2 * p - 1)) / math.cosh(1)
    depths = [math.log(peak / 2 / u) for u in U]
    first = [peak * (1 - math.exp(-t)) / t for t in depths]
    second = [peak * (1 - math.exp(-t) * (1 + t)) / t**2 for t in depths]
    growth = math.exp(g * eps * math.sqrt(2 * sum(u**2 for u in U)))
    variance = min(max(U[0] / (1 - p), U[1] / p) * 4 * p * (1 - p), sum(u * x**2 for u, x in zip(U, d, strict=True)))
    linear = g * eps * math.sqrt(2 * sum(u**2 * x**4 for u, x in zip(U, d, strict=True)))
    quadratic = eps**2 * g**2 * max(c * x**2 for c, x in zip(second, d, strict=True))
    deviation = math.sqrt(growth) * (math.sqrt(variance + linear + quadratic) + eps * math.sqrt(peak))
    norms, joint = head_norms(layer), joint_norms(layer)
    rows = split_rows(layer, scalar_measure([-1.0, 1.0]), support=1.5)
    at = near(rows, norms, r, support=1.5)
    assert float(query_lipschitz(rows, norms, joint, at, eps)[1]) == pytest.approx(3 * deviation**2)
    apart = [3 * (x + max(d)) for x in d]
    pull = g * math.sqrt(2 * sum(u**2 * x**2 for u, x in zip(U, apart, strict=True)))
    carry = 3 * math.sqrt(2 * sum(u**2 for u in U))
    curve = g**2 * max(c * x for c, x in zip(second, apart, strict=True)) + 3 * g * max(first)
    expected = min(3 * max(d), r * 3 * variance) + growth * (eps * (pull + carry) + eps**2 * curve)
    assert float(query_change(rows, norms, joint, at, eps)[1]) == pytest.approx(expected)


@settings(max_examples=16)
@given(seed=st.integers(0, 60), case=st.sampled_from(STILL))
def test_key_part_dominates_the_dense_key_part(seed, case):
    g = generator(seed)
    layer, sample = random_layer(case, g), random_measure(case, g, samples=1).sample(0)
    jacobian = layer.linearize(sample)
    whole, query = (ScaledJacobian(part, sample.masses).dense() for part in (jacobian, QueryPart(jacobian)))
    exact = float(torch.linalg.matrix_norm(whole - query, 2))
    rows = split_rows(layer, sample, support=float(sample.radius))
    assert exact <= key_part(rows, head_norms(layer), joint_norms(layer)) <= 30 * exact


@given(seed=st.integers(0, 200), eps=st.floats(1e-3, 1), distance=st.floats(1e-3, 1))
def test_query_lipschitz_dominates_secants_of_every_split_measure(seed, eps, distance):
    """nu from slivers that cost eps; two queries within the distance of an atom, as atoms of hardly any mass."""
    case, g = STILL[seed % len(STILL)], generator(seed)
    layer, sample = random_layer(case, g), random_measure(case, g, samples=1, length=3).sample(0)
    support = 1.2 * float(sample.radius)
    base = random_slivers(sample, g, count=3)
    places = 3 * support * torch.randn(base.points.shape, generator=g, dtype=torch.float64)
    nu = base.with_points(inside(base, places, eps=eps, support=support))
    row = int(torch.randint(sample.length, (1,), generator=g))
    steps = torch.randn(2, 5, generator=g, dtype=torch.float64)
    y, z = (sample.points[row] + distance * step / step.norm() for step in steps)
    first, second = (gamma(layer, nu, query, int(sample.positions[row])) for query in (y, z))
    norms = head_norms(layer)
    rows = split_rows(layer, sample, support=support)
    at = near(rows, norms, distance, support=support)
    slope = float(query_lipschitz(rows, norms, joint_norms(layer), at, eps)[row])
    assert float((first - second).norm()) <= slope * float((y - z).norm()) * (1 + 1e-9)


def gamma(layer, nu, query, position):
    """Gamma_nu at a query of the given position: an atom so light that nobody notices it, not even itself."""
    probe = type(nu)(
        torch.cat([nu.points, query[None]]),
        torch.cat([nu.masses, torch.full((1,), 1e-250).double()]),
        torch.cat([nu.positions, torch.tensor([position])]),
    )
    return layer(probe)[-1]


@given(seed=st.integers(0, 100), length=st.integers(1, 4))
def test_the_expansion_of_the_keys_is_exact(seed, length):
    """One head, y_j = x_j + d_j: Gamma_nu - Gamma_mu at a query is Z(mu)/Z(nu) sum_j P_j [...] as the module says."""
    g = generator(seed)
    V, x, d = (torch.randn(*shape, generator=g, dtype=torch.float64) for shape in ((2, 3), (length, 3), (length, 3)))
    slope, masses = torch.randn(3, generator=g, dtype=torch.float64), torch.rand(length, generator=g).double() + 0.1
    weights, moved = masses * (x @ slope).exp(), masses * ((x + d) @ slope).exp()
    p, t, u = weights / weights.sum(), d @ slope, x @ V.T
    centred = u - p @ u
    terms = centred * t[:, None] + d @ V.T + centred * (torch.expm1(t) - t)[:, None] + d @ V.T * torch.expm1(t)[:, None]
    expected = weights.sum() / moved.sum() * (p @ terms)
    assert torch.allclose(moved @ ((x + d) @ V.T) / moved.sum() - p @ u, expected, atol=1e-12)


def test_without_interaction_the_constant_is_that_of_the_mean():
    """A = 0: keys |V|, queries nothing, at any eps and support."""
    layer, sample = scalar_layer(0.0, 3.0), scalar_measure([-1.0, 0.2, 1.0], [0.5, 0.2, 0.3])
    for eps, support in ((0.0, 1.0), (1e-3, 2.0), (5.0, 9.0)):
        assert local(layer, sample, eps, support) == pytest.approx(3.0)


def test_one_atom_at_radius_zero():
    """n = 1: Gamma_mu is V x wherever the query is, so as eps -> 0 only |V| E d is left."""
    assert local(scalar_layer(2.0, 3.0), scalar_measure([1.0]), 0.0, 2.0) == pytest.approx(3.0)
    assert local(scalar_layer(2.0, 3.0), scalar_measure([1.0]), 1e-9, 2.0) == pytest.approx(3.0, rel=1e-4)


@pytest.mark.parametrize("seed", [1])
def test_the_constant_grows_with_radius_support_and_hull(seed):
    layer = random_layer(STILL[0], generator(seed), scale=0.3)
    sample = random_measure(STILL[0], generator(seed + 1), samples=1).sample(0)
    support = float(sample.radius)
    by_radius = [local(layer, sample, eps, support) for eps in (0.0, 1e-4, 1e-2, 1.0)]
    assert by_radius == sorted(by_radius)
    assert local(layer, sample, 1e-2, 2 * support) >= by_radius[2] * (1 - 1e-9)
    assert local(layer, sample, 1e-2, support, hull=1e-6) <= by_radius[2]


@pytest.mark.parametrize(("a", "points"), [(-1e5, [1.0]), (900.0, [-1.0, 1.0]), (-1e5, [0.0, 1.0]), (900.0, [0.0])])
def test_overflow_is_infinite_and_never_not_a_number(a, points):
    """At least |V| = 1, which moving everything attains: a comparison that not-a-number would fail."""
    constants = [local(scalar_layer(a), scalar_measure(points), eps, 3.0) for eps in (0.0, 1e-300, 1.0)]
    assert all(constant >= 1 - 1e-9 for constant in constants)
    assert math.isfinite(constants[0])
    assert math.isinf(constants[2])
