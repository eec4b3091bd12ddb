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
    """Two matrices of numbers of very different sizes, so that sums cancel; one head."""
    g = generator(seed)
    value = torch.randn(2, 1, *shape, generator=g, dtype=torch.float64) * 10 ** (
        4 * torch.randn(2, 1, *shape, generator=g, dtype=torch.float64)
    )
    return Approximate.of(value, error * torch.rand(1, *shape, generator=g, dtype=torch.float64))


def long(value: torch.Tensor) -> np.ndarray:
    return value.numpy().astype(np.longdouble)


def is_within(found: Approximate, exact: np.ndarray) -> bool:
    """Entry by entry."""
    return bool((np.abs(long(found.value) - exact) <= long(found.error)).all())


def moved(given_: Approximate, seed: int) -> np.ndarray:
    """As far from what is given as its errors allow, each entry up or down."""
    way = torch.randn(given_.value.shape, generator=generator(seed), dtype=torch.float64).sign()
    return long(given_.value) + long(0.999 * way * given_.error)


OPERATIONS = {
    "product": (lambda a, b: a @ b.transposed(), lambda a, b: a @ b.swapaxes(-1, -2)),
    "sum": (lambda a, b: a + b, lambda a, b: a + b),
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "entries": (lambda a, b: a * b, lambda a, b: a * b),
    "scaled": (lambda a, b: a.scaled(-0.3) + b, lambda a, b: a * np.longdouble(-0.3) + b),
}


@pytest.mark.parametrize("name", OPERATIONS)
@given(seed=SEED)
def test_rounding_is_within_the_error(name, seed):
    ours, exact = OPERATIONS[name]
    one, other = drawn(seed, 5, 7), drawn(seed + 1, 5, 7)
    found = ours(one, other)
    assert is_within(found, exact(long(one.value), long(other.value)))


@pytest.mark.parametrize("name", OPERATIONS)
@given(seed=SEED)
def test_what_operands_bring_along_is_passed_on(name, seed):
    """Exact operands that differ from those given by as much as their errors allow."""
    ours, exact = OPERATIONS[name]
    one, other = drawn(seed, 5, 7, error=0.7), drawn(seed + 1, 5, 7, error=0.2)
    assert is_within(ours(one, other), exact(moved(one, seed + 2), moved(other, seed + 3)))


@given(seed=SEED, part=st.sampled_from([0.0, 1e-3]), brought=st.sampled_from([0.0, 0.4]))
def test_weights_and_means_are_within_the_error(seed, part, brought):
    """Weights that are off by up to a part of each, and a field that is off by as much as it says."""
    g = generator(seed)
    weights = (3 * torch.randn(4, 6, generator=g, dtype=torch.float64)).softmax(-1)
    off = 1 + part * (2 * torch.rand(4, 6, generator=g, dtype=torch.float64) - 1)
    field = drawn(seed, 4, 6, error=brought)
    exact_field, exact_weights = moved(field, seed + 1), long(weights) * long(off)
    known = ApproximateWeights(weights[None], torch.tensor([part], dtype=torch.float64))
    assert is_within(known.times(field), exact_weights * exact_field)
    means = (exact_weights * exact_field).sum(-1, keepdims=True) + np.zeros((2, 1, 4, 6))
    assert is_within(known.means(field), means)
    assert is_within(field - known.means(field), exact_field - means)


def test_products_by_hand():
    """(3, 4) (1, 2)^T with errors (0.5, 0.1) and (0.1, 0.2): 0.1 * 3 + 0.2 * 4, 0.5 * 1.1, 0.1 * 2.2 and rounding.

    Entry by entry: 3 * 0.1 + 0.5 * 1.1, and 4 * 0.2 + 0.1 * 2.2. A second matrix of smaller entries changes nothing.
    """
    values, errors = [[3.0, 4.0], [-1.0, 2.0]], [[0.5, 0.1], [0.1, 0.2]]
    one = Approximate.of(torch.tensor(values).double()[:, None, None], torch.tensor([[errors[0]]]).double())
    other = Approximate.of(torch.tensor([[[[1.0, 2.0]]]]).double(), torch.tensor([[errors[1]]]).double())
    assert (one @ other.transposed()).value.flatten().tolist() == [11.0, 3.0]
    assert (one @ other.transposed()).error.item() == pytest.approx(1.1 + 0.55 + 0.22)
    assert (one * other).error.flatten().tolist() == pytest.approx([0.3 + 0.55, 0.8 + 0.22])


def test_a_row_more_is_exactly_zero():
    one = drawn(0, 2, 3, error=0.1)
    assert one.with_zero().value[0, 0].tolist() == [*one.value[0, 0].tolist(), [0.0] * 3]
    assert one.with_zero().error[0].tolist() == [*one.error[0].tolist(), [0.0] * 3]


@given(seed=SEED)
def test_sizes_are_upper_values_and_may_be_read_again(seed):
    found = drawn(seed, 3, 3) * drawn(seed + 1, 3, 3) - drawn(seed + 2, 3, 3) @ drawn(seed + 3, 3, 3)
    again = found.read_again()
    assert (again.largest <= found.largest).all()
    assert torch.equal(again.largest, found.value.abs().amax(0))
    assert torch.equal(again.error, found.error)
