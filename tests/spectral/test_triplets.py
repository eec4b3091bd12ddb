import numpy as np
import pytest
import scipy.sparse.linalg
import torch

from robust_attn.attention.operator import FunctionJacobian, ScaledJacobian
from robust_attn.spectral.lanczos import largest_singular_value
from robust_attn.spectral.triplets import as_linear_operator, svds
from tests.cases import CASES, generator, random_layer, random_measure
from tests.spectral.matrices import Matrix, diagonal


def decaying(rows: int, columns: int, seed: int) -> torch.Tensor:
    """A dense matrix with singular values 1, .8, .64, ..."""
    left, _ = torch.linalg.qr(torch.randn(rows, rows, generator=generator(seed), dtype=torch.float64))
    right, _ = torch.linalg.qr(torch.randn(columns, columns, generator=generator(seed + 1), dtype=torch.float64))
    rank = min(rows, columns)
    return (left[:, :rank] * 0.8 ** torch.arange(rank, dtype=torch.float64)) @ right[:, :rank].T


def test_triplets_agree_with_the_dense_decomposition():
    matrix = decaying(300, 200, 0)
    found = svds(Matrix(matrix), 5, generator=generator(2), tolerance=1e-10)
    assert found.converged
    assert found.steps < 128
    assert found.s.tolist() == pytest.approx([0.8**i for i in range(5)], rel=1e-10)
    u, _, vt = torch.linalg.svd(matrix)
    assert (u[:, :5] * found.u).sum(0).abs().tolist() == pytest.approx([1.0] * 5, rel=1e-9)
    assert (vt[:5] * found.vt).sum(1).abs().tolist() == pytest.approx([1.0] * 5, rel=1e-9)


def test_shapes_are_those_of_scipy_with_samples_in_front():
    matrices = torch.stack([decaying(40, 150, seed) for seed in (0, 1, 2)])
    found = svds(Matrix(matrices), 4, generator=generator(0), steps=100)
    assert (found.u.shape, found.s.shape, found.vt.shape) == ((3, 40, 4), (3, 4), (3, 4, 150))
    for index in range(3):
        best = torch.linalg.svd(matrices[index], full_matrices=False)
        truncated = (best.U[:, :4] * best.S[:4]) @ best.Vh[:4]
        assert ((found.u[index] * found.s[index]) @ found.vt[index] - truncated).norm() <= 1e-5


def test_residuals_bound_the_error_and_are_true():
    matrix = torch.randn(150, 160, generator=generator(0), dtype=torch.float64)
    found = svds(Matrix(matrix), 3, generator=generator(1), steps=12, tolerance=1e-12)
    assert not found.converged
    back = (matrix.T @ found.u - found.vt.T * found.s).norm(dim=0) / found.s[0]
    assert torch.allclose(back, found.residuals, rtol=1e-8)
    exact = torch.linalg.svdvals(matrix)
    nearest = (exact[:, None] - found.s).abs().amin(0)
    assert (nearest <= found.residuals * found.s[0] * (1 + 1e-9)).all()
    assert (found.s <= exact[:3] * (1 + 1e-12)).all()


def test_repeated_values_of_a_small_map_are_all_found():
    found = svds(diagonal(3.0, 3.0, 3.0, 1.0), 4, generator=generator(0))
    assert found.s.tolist() == pytest.approx([3, 3, 3, 1])


def test_repeated_values_are_found_once_the_krylov_space_is_exhausted():
    """3 I in dimension 200: one step exhausts each Krylov space, and every fresh direction finds another 3."""
    found = svds(Matrix(3 * torch.eye(200).double()), 3, generator=generator(0))
    assert found.s.tolist() == pytest.approx([3, 3, 3])
    assert torch.allclose(found.vt @ found.vt.T, torch.eye(3).double(), atol=1e-12)


def test_more_triplets_than_the_rank_are_zero_with_orthonormal_vectors():
    found = svds(diagonal(2.0, 1.0, size=200), 4, generator=generator(0))
    assert found.s.tolist() == pytest.approx([2, 1, 0, 0], abs=1e-12)
    assert torch.allclose(found.vt @ found.vt.T, torch.eye(4).double(), atol=1e-12)
    assert torch.allclose(found.u.T @ found.u, torch.eye(4).double(), atol=1e-12)


def test_zero_map():
    found = svds(Matrix(torch.zeros(200, 300).double()), 2, generator=generator(0))
    assert found.s.tolist() == [0.0, 0.0]
    assert found.converged


@pytest.mark.parametrize("k", [0, -1, 5])
def test_impossible_k_is_refused(k):
    with pytest.raises(ValueError, match="k must be from 1"):
        svds(Matrix(torch.zeros(4, 300).double()), k, generator=generator(0))


def test_single_precision():
    found = svds(Matrix(decaying(200, 300, 0).float()), 3, generator=generator(0), tolerance=1e-4)
    assert found.s.dtype == torch.float32
    assert found.s.tolist() == pytest.approx([1, 0.8, 0.64], rel=1e-4)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_weighted_layers(case):
    """M^{1/2} D M^{-1/2} of every kind of layer; padding is outside the map."""
    measure = random_measure(case, generator(1))
    operator = ScaledJacobian(random_layer(case, generator(0)).linearize(measure), measure.masses)
    exact = torch.linalg.svdvals(operator.dense())[..., :3]
    lanczos = svds(operator, 3, generator=generator(2), steps=19, tolerance=1e-9)
    assert torch.allclose(svds(operator, 3, generator=generator(2)).s, exact, atol=1e-12)
    assert torch.allclose(lanczos.s, exact, atol=1e-6)


class Block(torch.nn.Module):
    """A pre-LN transformer block written out: attention and a feed-forward part, each with its residual."""

    def __init__(self, d: int, heads: int) -> None:
        super().__init__()
        self.heads, self.norms = heads, torch.nn.ModuleList([torch.nn.LayerNorm(d), torch.nn.LayerNorm(d)])
        self.qkv, self.out = torch.nn.Linear(d, 3 * d), torch.nn.Linear(d, d)
        self.feed = torch.nn.Sequential(torch.nn.Linear(d, 2 * d), torch.nn.GELU(), torch.nn.Linear(2 * d, d))

    def forward(self, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(-2, -3) for part in self.qkv(self.norms[0](x)).chunk(3, -1)
        )
        mixed = (q @ k.transpose(-1, -2)).softmax(-1) @ v
        x = x + self.out(mixed.transpose(-2, -3).flatten(-2))
        return x + self.feed(self.norms[1](x))


@pytest.mark.parametrize("steps", [40, 400])
def test_a_whole_block_with_trainable_parameters(steps):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        block = Block(12, 3).double()
    points = torch.randn(2, 8, 12, generator=generator(0), dtype=torch.float64)
    operator = FunctionJacobian(block, points)
    exact = torch.linalg.svdvals(operator.dense().detach())
    found = svds(operator, 2, generator=generator(1), steps=steps)
    assert torch.allclose(found.s, exact[..., :2], rtol=1e-3 if steps == 40 else 1e-10)
    estimate = largest_singular_value(operator, generator=generator(2), steps=steps)
    assert (estimate.lower <= exact[..., 0] * (1 + 1e-12)).all()
    assert (exact[..., 0] <= estimate.upper).all()
    assert not estimate.lower.requires_grad
    assert all(parameter.grad is None for parameter in block.parameters())


def test_torchs_own_encoder_layer():
    """torch.nn.TransformerEncoderLayer in evaluation mode, by its public class."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        block = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dtype=torch.float64).eval()
    points = torch.randn(1, 5, 8, generator=generator(0), dtype=torch.float64)
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
        exact = torch.linalg.svdvals(torch.func.jacrev(block)(points).reshape(40, 40))[0]
        found = svds(FunctionJacobian(block, points), 1, generator=generator(0), steps=39)
    assert float(found.s) == pytest.approx(float(exact.detach()), rel=1e-6)


class TestLinearOperator:
    def test_products_are_those_of_the_matrix(self):
        case = CASES[-3]
        measure = random_measure(case, generator(1), samples=1)
        jacobian = random_layer(case, generator(0)).linearize(measure)
        operator, dense = as_linear_operator(jacobian), jacobian.dense()[0].numpy()
        rng = np.random.default_rng(0)
        x, y = rng.standard_normal(operator.shape[1]), rng.standard_normal(operator.shape[0])
        assert operator.shape == dense.shape
        assert operator.dtype == np.float64
        assert np.allclose(operator.matvec(x), dense @ x, atol=1e-12)
        assert np.allclose(operator.rmatvec(y), dense.T @ y, atol=1e-12)
        assert np.allclose(operator @ np.stack([x, 2 * x], 1), dense @ np.stack([x, 2 * x], 1), atol=1e-12)

    def test_scipy_finds_the_same_values(self):
        matrix = Matrix(decaying(150, 160, 3))
        theirs = scipy.sparse.linalg.svds(as_linear_operator(matrix), k=3, return_singular_vectors=False)
        assert sorted(theirs)[::-1] == pytest.approx(svds(matrix, 3, generator=generator(0)).s.tolist(), rel=1e-8)

    def test_single_precision_stays_single(self):
        operator = as_linear_operator(Matrix(torch.eye(3)))
        assert operator.dtype == np.float32
        assert operator.matvec(np.ones(3, dtype=np.float32)).dtype == np.float32

    def test_a_batch_is_refused(self):
        with pytest.raises(ValueError, match="one sample"):
            as_linear_operator(Matrix(torch.zeros(2, 3, 4)))
