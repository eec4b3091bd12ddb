"""How often the upper value fails, beside the probability it states: more than 10 000 matrices and small layers.

    python -m benchmarks.failure_rate
    python -m benchmarks.failure_rate --quick

Lanczos from a uniform start sees a matrix only through its singular values, so diagonal matrices stand for all with
that spectrum; dense Gaussian matrices and attention layers are drawn as well, their values by a full SVD. The
Chebyshev spectra put one value above a set at the extrema of a Chebyshev polynomial: the hardest kind for Lanczos. The
`adaptive` rows stop by a crude tolerance, sample by sample, so that soon-stopped runs are often wrong ones: the
probability has to cover them. Probabilities of 0.5 or 0.1 are stated so that failures could be seen at all.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.measuring import print_table
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.operator import Jacobian
from robust_attn.spectral.lanczos import largest_singular_value, upper_factor

SIZE = 150
SETTINGS = ((4, 0.5), (8, 0.5), (8, 0.1), (16, 0.1), (16, 0.01))


@dataclass(frozen=True, eq=False)
class Dense(Jacobian):
    """A matrix, or the diagonal of one, as an operator on fields of shape (columns, 1)."""

    matrix: Tensor
    diagonal: bool = False

    @property
    def domain(self) -> torch.Size:
        return torch.Size((*self.matrix.shape, 1)) if self.diagonal else self._column(-1)

    @property
    def codomain(self) -> torch.Size:
        return self.domain if self.diagonal else self._column(-2)

    @property
    def dtype(self) -> torch.dtype:
        return self.matrix.dtype

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def _column(self, axis: int) -> torch.Size:
        return torch.Size((*self.matrix.shape[:-2], self.matrix.shape[axis], 1))

    def jvp(self, tangent: Tensor) -> Tensor:
        return self.matrix[..., None] * tangent if self.diagonal else self.matrix @ tangent

    def vjp(self, cotangent: Tensor) -> Tensor:
        return self.matrix[..., None] * cotangent if self.diagonal else self.matrix.transpose(-1, -2) @ cotangent


def spectra() -> dict[str, Tensor]:
    """Singular values with largest value 1."""
    place = torch.arange(SIZE, dtype=torch.float64) / SIZE
    found = {"linear": 1 - place, "flat (1-x)^1/4": (1 - place) ** 0.25, "flat (1-x)^1/16": (1 - place) ** (1 / 16)}
    return found | {f"Chebyshev, gap {gap}": chebyshev(7, gap) for gap in (0.05, 0.2, 0.5)}


def chebyshev(degree: int, gap: float) -> Tensor:
    """One value 1; the squares of the others at the extrema of the Chebyshev polynomial on [0, 1 - gap], repeated."""
    angles = torch.cos(torch.arange(SIZE - 1, dtype=torch.float64) * math.pi / degree)
    return torch.cat([torch.ones(1, dtype=torch.float64), (1 - gap) * (1 + angles) / 2]).sqrt()


def tuned(steps: int, stated: float) -> Tensor:
    """The Chebyshev spectrum whose gap is just what the bound at `steps` promises to resolve."""
    return chebyshev(steps - 1, 1.02 * (1 - upper_factor(SIZE, steps, stated) ** -2))


def observed(operator: Jacobian, exact: Tensor, steps: int, stated: float, seed: int) -> float:
    """The share of the samples whose upper value, each stated to fail with probability `stated`, is too small."""
    samples = exact.numel()
    generator = torch.Generator().manual_seed(seed)
    found = largest_singular_value(operator, generator=generator, steps=steps, failure_probability=stated * samples)
    return float((found.upper < exact * (1 - 1e-12)).double().mean())


def adaptive(values: Tensor, runs: int, stated: float, tolerance: float) -> tuple[float, float, float]:
    """Failures of runs that stop by themselves, those of what the number of steps alone promises, mean steps."""
    generator, operator = torch.Generator().manual_seed(5), Dense(values, diagonal=True)
    failures, promised, steps = 0, 0, 0
    for _ in range(runs):
        found = largest_singular_value(
            operator, generator=generator, steps=32, failure_probability=stated, tolerance=tolerance
        )
        failures += bool(found.upper < 1 - 1e-12)
        promised += bool(found.lower * upper_factor(SIZE, found.steps, stated) < 1 - 1e-12)
        steps += found.steps
    return failures / runs, promised / runs, steps / runs


def layers(samples: int) -> tuple[Jacobian, Tensor]:
    g = torch.Generator().manual_seed(3)
    layer = AttentionLayer.single_head(*(torch.randn(6, 6, generator=g, dtype=torch.float64) for _ in range(2)))
    jacobian = layer.linearize(TokenMeasure.uniform(torch.randn(samples, 6, 6, generator=g, dtype=torch.float64)))
    return jacobian, torch.linalg.svdvals(jacobian.dense())[..., 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the runs")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = 100 if options.quick else 1000
    rows, total = [], 0
    matrices = torch.randn(runs, 60, 80, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    ones = torch.ones(runs, dtype=torch.float64)
    cases = {name: (Dense(values.expand(runs, SIZE), diagonal=True), ones) for name, values in spectra().items()}
    cases["Gaussian 60 x 80"] = (Dense(matrices), torch.linalg.svdvals(matrices)[..., 0])
    cases["layers n = d = 6"] = layers(runs)
    for name, (operator, exact) in cases.items():
        rates = [observed(operator, exact, *setting, seed) for seed, setting in enumerate(SETTINGS)]
        total += runs * len(SETTINGS)
        rows.append([name, *(f"{rate:.4f}" for rate in rates)])
    hardest = [Dense(tuned(*setting).expand(runs, SIZE), diagonal=True) for setting in SETTINGS]
    rates = [observed(operator, ones, *setting, 7) for operator, setting in zip(hardest, SETTINGS, strict=True)]
    total += runs * len(SETTINGS)
    rows.append(["Chebyshev, tuned", *(f"{rate:.4f}" for rate in rates)])
    print(f"{total} runs with a fixed number of steps: observed rate of failures; stated in the header")
    print_table(["spectrum", *(f"k={k}: {stated}" for k, stated in SETTINGS)], rows)
    soon = spectra() | {f"Chebyshev, tuned to k={k}": tuned(k, 0.5) for k in (4, 8)}
    chosen = {name: adaptive(values, runs, 0.5, 0.2) for name, values in soon.items()}
    print(f"{runs * len(chosen)} runs that stop by themselves (tolerance 0.2, stated 0.5)")
    shown = [
        [name, f"{rate:.4f}", f"{promised:.4f}", f"{steps:.1f}"] for name, (rate, promised, steps) in chosen.items()
    ]
    print_table(["spectrum", "observed", "of the steps alone", "mean steps"], shown)


if __name__ == "__main__":
    main()
