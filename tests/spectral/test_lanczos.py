import math

import pytest
import torch

from robust_attn.spectral.lanczos import (
    CHECK_EVERY,
    CLOSE,
    Bidiagonal,
    bidiagonalize,
    checkpoints,
    largest_singular_value,
    start_generator,
    upper_factor,
)
from tests.cases import CASES, generator, random_layer, random_measure
from tests.spectral.matrices import Matrix, diagonal


def test_recurrence_and_orthogonality():
    matrix = torch.randn(3, 40, 30, generator=generator(0), dtype=torch.float64)
    start = torch.randn(3, 30, 1, generator=generator(1), dtype=torch.float64)
    pair = bidiagonalize(Matrix(matrix), start, 12)
    eye = torch.eye(12).double()
    assert (pair.right @ pair.right.transpose(-1, -2) - eye).abs().max() <= 1e-13
    assert (pair.left @ pair.left.transpose(-1, -2) - eye).abs().max() <= 1e-13
    assert (pair.left @ matrix @ pair.right.transpose(-1, -2) - pair.matrix()).abs().max() <= 1e-12


@pytest.mark.parametrize("case", CASES, ids=str)
def test_exact_when_the_whole_space_is_searched(case):
    operator = random_layer(case, generator(0)).linearize(random_measure(case, generator(1)))
    exact = torch.linalg.svdvals(operator.dense())[..., 0]
    estimate = largest_singular_value(operator, generator=generator(2), steps=1000)
    assert estimate.failure_probability == 0
    assert (estimate.lower - exact).abs().max() <= 1e-10 * exact.max()
    assert (estimate.upper >= exact).all()


def test_lower_never_exceeds_and_direction_attains_it():
    matrix = torch.randn(5, 60, 80, generator=generator(0), dtype=torch.float64)
    estimate = largest_singular_value(Matrix(matrix), generator=generator(1), steps=10)
    exact = torch.linalg.svdvals(matrix)[..., 0]
    assert (estimate.lower <= exact * (1 + 1e-12)).all()
    image = matrix @ estimate.direction
    assert torch.allclose(image.flatten(-2).norm(dim=-1), estimate.lower, rtol=1e-10)


def test_says_when_it_did_not_converge():
    matrix = torch.diag(torch.linspace(0.99, 1.0, 300).double())
    assert not largest_singular_value(Matrix(matrix), generator=generator(0), steps=5).converged
    assert largest_singular_value(
        Matrix(torch.diag(torch.tensor([2.0, 1.0]).double())), generator=generator(0)
    ).converged


def test_upper_factor_by_hand():
    """N = 24576, k = 80, 1e-9: sqrt(e) = ln(1.648 * 156.77 * 1e9) / 159 = 26.2777 / 159, so 1/sqrt(1-e) = 1.01394."""
    root = math.log(1.648 * math.sqrt(24576) * 1e9) / 159
    assert upper_factor(24576, 80, 1e-9) == pytest.approx(1 / math.sqrt(1 - root**2))
    assert upper_factor(24576, 80, 1e-9) == pytest.approx(1.01394, abs=1e-5)


def test_too_few_steps_promise_nothing():
    assert upper_factor(24576, 5, 1e-9) == math.inf


def test_upper_fails_no_more_often_than_stated():
    """A slowly decaying spectrum, few steps, a stated probability of 0.5: at most half of 400 runs may fail."""
    spectrum = (1 - torch.arange(200).double() / 200) ** 0.25
    matrices = torch.diag(spectrum).expand(400, 200, 200)
    factor = upper_factor(200, 8, 0.5)
    estimate = largest_singular_value(Matrix(matrices), generator=generator(3), steps=8, failure_probability=0.5 * 400)
    failures = int((estimate.lower * factor < 1.0).sum())
    assert failures <= 200
    assert (estimate.lower < 1.0).all()


def test_zero_operator():
    estimate = largest_singular_value(Matrix(torch.zeros(4, 3).double()), generator=generator(0), steps=2)
    assert float(estimate.lower) == 0.0
    assert math.isfinite(float(estimate.lower))


def test_repeated_singular_values_exhaust_the_krylov_space_without_harm():
    estimate = largest_singular_value(Matrix(3 * torch.eye(20).double()), generator=generator(0), steps=15)
    assert float(estimate.lower) == pytest.approx(3.0, rel=1e-12)


def test_exhausted_runs_go_on_orthogonally_and_the_recurrence_still_holds():
    """diag(3, 3, 2, 0, 0, 0): the first Krylov space has dimension 3 at most; six steps must span everything."""
    operator = diagonal(3.0, 3.0, 2.0, size=6)
    pair = bidiagonalize(operator, torch.randn(6, 1, generator=generator(0), dtype=torch.float64), 6)
    eye = torch.eye(6).double()
    assert (pair.right @ pair.right.T - eye).abs().max() <= 1e-12
    assert (pair.left @ pair.left.T - eye).abs().max() <= 1e-12
    assert (pair.left @ operator.matrix @ pair.right.T - pair.matrix()).abs().max() <= 1e-12
    assert torch.linalg.svdvals(pair.matrix()).tolist() == pytest.approx([3, 3, 2, 0, 0, 0], abs=1e-12)


@pytest.mark.parametrize(("rows", "columns"), [(3, 9), (9, 3), (1, 7)])
def test_the_smaller_side_may_be_full_before_the_steps_are_done(rows, columns):
    matrix = torch.randn(rows, columns, generator=generator(0), dtype=torch.float64)
    pair = bidiagonalize(Matrix(matrix), torch.randn(columns, 1, generator=generator(1), dtype=torch.float64), columns)
    found = torch.linalg.svdvals(pair.matrix())[: min(rows, columns)]
    assert torch.allclose(found, torch.linalg.svdvals(matrix), rtol=1e-12)


def test_checkpoints_end_with_the_last_step():
    assert checkpoints(7) == (2, 4, 6, 7)
    assert checkpoints(4) == (2, 4)
    assert checkpoints(1) == (1,)


def test_a_tolerance_ends_the_run_at_a_checkpoint():
    """diag(4, 1, ..., 1) has two distinct values: two steps find them, so the run ends at the first checkpoint."""
    operator = diagonal(4.0, *[1.0] * 99)
    estimate = largest_singular_value(operator, generator=generator(0), tolerance=1e-8)
    assert estimate.steps == CHECK_EVERY
    assert float(estimate.lower) == pytest.approx(4.0, rel=1e-12)
    assert estimate.converged


def test_a_run_that_chose_when_to_stop_promises_what_its_steps_do():
    """Looking on the way takes nothing: the upper value is not above that of as many steps fixed in advance."""
    spectrum = 1 - torch.arange(300).double() / 300
    estimate = largest_singular_value(Matrix(torch.diag(spectrum)), generator=generator(0), tolerance=3e-3)
    assert CHECK_EVERY < estimate.steps < 64
    fixed = largest_singular_value(Matrix(torch.diag(spectrum)), generator=generator(0), steps=estimate.steps)
    assert torch.equal(estimate.upper, fixed.upper)
    assert 1.0 <= float(estimate.upper) <= float(estimate.lower) * upper_factor(300, estimate.steps, 1e-9)


def test_a_run_ends_where_both_sides_are_close():
    """diag(2, 1 - i/300...): one value stands apart, so far fewer than 64 steps show that there is none above it."""
    operator = Matrix(torch.diag(torch.cat([torch.tensor([2.0]), 1 - torch.arange(299) / 300]).double()))
    estimate = largest_singular_value(operator, generator=generator(0))
    assert estimate.steps < 24
    assert 2.0 <= float(estimate.upper) <= (1 + CLOSE) * float(estimate.lower)


def test_samples_share_the_probability():
    """Three samples: the first has the upper value that it would have alone with a third of the probability."""
    matrix = torch.diag(1 - torch.arange(300).double() / 300)
    three = largest_singular_value(Matrix(matrix.expand(3, 300, 300)), generator=start_generator(0), steps=12)
    alone, lucky = (
        largest_singular_value(Matrix(matrix), generator=start_generator(0), steps=12, failure_probability=chance)
        for chance in (1e-9 / 3, 1e-9)
    )
    assert float(three.upper[0]) == pytest.approx(float(alone.upper), rel=1e-9)
    assert float(alone.upper) > 1.001 * float(lucky.upper)


def test_a_run_ends_where_it_is_known_to_be_below():
    operator = Matrix(torch.diag(1 - torch.arange(300).double() / 300))
    alone = largest_singular_value(operator, generator=generator(0))
    below = largest_singular_value(operator, generator=generator(0), below=torch.tensor(5.0).double())
    assert below.steps < alone.steps
    assert 1.0 <= float(below.upper) <= 5.0


def test_a_tolerance_never_reached_says_so():
    matrix = torch.diag(torch.linspace(0.99, 1.0, 300).double())
    estimate = largest_singular_value(Matrix(matrix), generator=generator(0), steps=7, tolerance=1e-9)
    assert estimate.steps == 7
    assert not estimate.converged


def test_every_sample_must_be_within_the_tolerance():
    easy, hard = (
        torch.diag(torch.tensor([9.0] + [1.0] * 199)).double(),
        torch.diag(torch.linspace(0.5, 1, 200).double()),
    )
    alone = largest_singular_value(Matrix(easy), generator=generator(0), tolerance=1e-6)
    both = largest_singular_value(Matrix(torch.stack([easy, hard])), generator=generator(0), steps=120, tolerance=1e-6)
    assert alone.steps < both.steps
    assert (both.error <= 1e-6).all()


def test_error_is_refined_by_the_gap_by_hand():
    """B = [[2, 0], [0, 1]] with beta = 0.1 at its end: the pair of 2 has no component there, so its error is zero.

    Swapped, B = [[1, 0], [0, 2]]: residuals 0.1 / 2 = 0.05 (first) and 0, gap 1 - 1/2 - 0 = 0.5, so 0.05^2 / (2 * 0.5).
    """
    beta = torch.tensor([0.0, 0.1]).double()
    empty = torch.zeros(2, 3).double()
    assert float(Bidiagonal(empty, empty, torch.tensor([2.0, 1.0]).double(), beta).error()) == 0.0
    swapped = Bidiagonal(empty, empty, torch.tensor([1.0, 2.0]).double(), beta)
    assert float(swapped.error()) == pytest.approx(0.0025)


@pytest.mark.parametrize("steps", [6, 10, 16, 24])
def test_error_dominates_the_true_one_on_spectra_that_the_start_has_seen(steps):
    """Random matrices: the estimate is not below the true relative error, and far below the residual once settled."""
    matrix = torch.randn(80, 120, generator=generator(3), dtype=torch.float64)
    estimate = largest_singular_value(Matrix(matrix), generator=generator(4), steps=steps)
    true = 1 - float(estimate.lower) / float(torch.linalg.matrix_norm(matrix, 2))
    assert true <= float(estimate.error) * (1 + 1e-6) + 1e-14
    assert float(estimate.error) <= float(estimate.residual)


def test_adaptive_uppers_fail_no_more_often_than_stated():
    """One value above a Chebyshev set, a tolerance so crude that runs stop before they have seen it; stated 0.5."""
    below = 0.7 * (1 + torch.cos(torch.arange(149).double() * math.pi / 3)) / 2
    operator = Matrix(torch.diag(torch.cat([torch.ones(1).double(), below]).sqrt()))
    g = generator(0)
    runs = [
        largest_singular_value(operator, generator=g, steps=32, failure_probability=0.5, tolerance=0.3)
        for _ in range(200)
    ]
    assert sum(bool(run.lower < 0.99) for run in runs) >= 20
    assert sum(bool(run.upper < 1.0) for run in runs) <= 100


def test_residual_is_that_of_the_transposed_equation():
    """J v = s u by construction; |J^T u - s v| / s is what is reported."""
    matrix = torch.randn(50, 70, generator=generator(0), dtype=torch.float64)
    estimate = largest_singular_value(Matrix(matrix), generator=generator(1), steps=9)
    image = matrix @ estimate.direction
    back = matrix.T @ (image / estimate.lower) - estimate.lower * estimate.direction
    assert float(back.norm() / estimate.lower) == pytest.approx(float(estimate.residual), rel=1e-8)


def test_small_maps_are_decomposed_and_leave_nothing_to_chance():
    """A start almost orthogonal to the top vector cannot hurt: diag(1, 1 - 1e-9) is told apart."""
    estimate = largest_singular_value(diagonal(1.0 - 1e-9, 1.0), generator=generator(0), steps=2)
    assert float(estimate.lower) == 1.0
    assert estimate.failure_probability == 0.0
    assert estimate.direction.flatten().abs().tolist() == [0.0, 1.0]


def test_too_few_steps_give_an_infinite_upper_value_even_for_zero():
    estimate = largest_singular_value(Matrix(torch.zeros(3, 500).double()), generator=generator(0), steps=2)
    assert float(estimate.lower) == 0.0
    assert float(estimate.upper) == math.inf


def test_single_precision():
    matrix = torch.randn(3, 120, 200, generator=generator(0), dtype=torch.float64)
    exact = torch.linalg.svdvals(matrix)[..., 0]
    estimate = largest_singular_value(Matrix(matrix.float()), generator=generator(1), steps=100, tolerance=1e-5)
    assert estimate.lower.dtype == torch.float32
    assert (estimate.lower.double() / exact - 1).abs().max() <= 1e-5
    assert (estimate.upper.double() >= exact).all()


def test_single_precision_noise_is_not_taken_for_a_direction():
    """In float32 the second Lanczos vector of 3 I is rounding noise; taken at face value it would spoil the basis."""
    estimate = largest_singular_value(Matrix(3 * torch.eye(400)), generator=generator(0), steps=30)
    assert float(estimate.lower) == pytest.approx(3.0, rel=1e-5)
