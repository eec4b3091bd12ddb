"""Tracked errors: what exact arithmetic finds is within them, and what operands bring along is passed on."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from robust_attn.attention.approximate import Approximate, ApproximateWeights
from tests.cases import generator

SEED = st.integers(0, 10**6)


def drawn(seed: int, *shape: int, error: float = 0.0) -> Approximate:
    """Numbers of very different sizes, so that sums cancel."""
    g = generator(seed)
    value = torch.randn(*shape, generator=g, dtype=torch.float64) * 10 ** (
        4 * torch.randn(*shape, generator=g, dtype=torch.float64)
    )
    return Approximate(value, torch.full(shape[:-2], error, dtype=torch.float64))


def long(value: torch.Tensor) -> np.ndarray:
    return value.numpy().astype(np.longdouble)


def distance(found: Approximate, exact: np.ndarray) -> float:
    return float(np.sqrt(((long(found.value) - exact) ** 2).sum()))


OPERATIONS = {
    "product": (lambda a, b: a @ b.transposed(), lambda a, b: a @ b.T),
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "entries": (lambda a, b: a * b, lambda a, b: a * b),
    "scaled": (lambda a, b: a.scaled(-0.3) + b, lambda a, b: a * np.longdouble(-0.3) + b),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(seed=SEED)
def test_rounding_is_within_the_error(name, seed):
    ours, exact = OPERATIONS[name]
    one, other = drawn(seed, 5, 7), drawn(seed + 1, 5, 7)
    found = ours(one, other)
    assert distance(found, exact(long(one.value), long(other.value))) <= float(found.error)


@pytest.mark.parametrize("name", OPERATIONS)
@given(seed=SEED)
def test_what_operands_bring_along_is_passed_on(name, seed):
    """Exact operands that differ from those given by as much as their errors allow."""
    ours, exact = OPERATIONS[name]
    one, other = drawn(seed, 5, 7, error=0.7), drawn(seed + 1, 5, 7, error=0.2)
    moved = []
    for index, given_ in enumerate((one, other)):
        way = torch.randn(5, 7, generator=generator(seed + 2 + index), dtype=torch.float64)
        moved.append(long(given_.value) + long(way / way.norm() * given_.error))
    found = ours(one, other)
    assert distance(found, exact(*moved)) <= float(found.error)


@given(seed=SEED, part=st.sampled_from([0.0, 1e-3]), brought=st.sampled_from([0.0, 0.4]))
def test_weights_and_means_are_within_the_error(seed, part, brought):
    """Weights that are off by up to a part of each, and a field that is off by as much as it says."""
    g = generator(seed)
    weights = (3 * torch.randn(4, 6, generator=g, dtype=torch.float64)).softmax(-1)
    off = 1 + part * (2 * torch.rand(4, 6, generator=g, dtype=torch.float64) - 1)
    field, way = drawn(seed, 4, 6, error=brought), torch.randn(4, 6, generator=g, dtype=torch.float64)
    exact_field = long(field.value) + long(way / way.norm() * brought)
    exact_weights = long(weights) * long(off)
    known = ApproximateWeights(weights, torch.tensor(part, dtype=torch.float64))
    assert distance(known.times(field), exact_weights * exact_field) <= float(known.times(field).error)
    centred = exact_field - (exact_weights * exact_field).sum(-1, keepdims=True)
    assert distance(known.centred(field), centred) <= float(known.centred(field).error)


def test_a_product_by_hand():
    """(3, 4) (1, 0)^T with errors 0.5 and 0.1: 5 * 0.1 + 0.5 * 1 + 0.05 = 1.05, rounding aside."""
    one = Approximate(torch.tensor([[3.0, 4.0]]).double(), torch.tensor(0.5, dtype=torch.float64))
    other = Approximate(torch.tensor([[1.0], [0.0]]).double(), torch.tensor(0.1, dtype=torch.float64))
    found = one @ other
    assert found.value.item() == 3.0
    assert float(found.error) == pytest.approx(1.05, rel=1e-12)


def test_a_row_more_is_exactly_zero():
    one = drawn(0, 2, 3, error=0.1)
    assert one.with_zero(-2).value.tolist() == [*one.value.tolist(), [0.0] * 3]
    assert one.with_zero(-1).value.tolist() == [[*row, 0.0] for row in one.value.tolist()]
    assert float(one.with_zero(-2).error) == 0.1
