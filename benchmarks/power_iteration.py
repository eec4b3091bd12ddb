"""Time to 1e-6 relative accuracy of |D_X f|: this engine, power iteration, SciPy's svds, and jacrev with an SVD.

    python -m benchmarks.power_iteration          # random BERT-base and pretrained MiniLM layers, n = 64, 256, 512
    python -m benchmarks.power_iteration --quick

CPU time on one thread, one run, medians of interleaved repeats, with the forward pass that ours and svds start from.
- **ours** stops by its own rule, an estimated relative error of the value <= 1e-6 (`tolerance=1e-6`: residual,
  refined by the gap); a second ratio stops it by the oracle of power iteration (time in proportion to the steps).
- **svds** is `scipy.sparse.linalg.svds(k=1, tol=...)` on the same operator. ARPACK stops by the residual on J^T J,
  tol^2 relative: **1e-3** asks for the residual 1e-6, **3e-2** for 1e-3, which is what an error of 1e-6 in the value
  takes when the gap is wide, and is the most favourable choice for svds here. Both are shown, with the errors left.
- **power** is torch.func on the map as one writes it in eager torch: jvp[1], and one vjp kept for all iterations. It
  is stopped by an oracle, at the first iterate within 1e-6 of the value, which flatters it. Its time is
  iterations (counted on the closed-form operator, the same iterates) times the measured time of one.
- **jacrev** + svdvals needs the whole matrix: 19 GB at n = 64, so it is shown at n = 2 and 4.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from scipy.sparse.linalg import svds as scipy_svds
from torch import Tensor
from torch.nn.functional import linear

from benchmarks.measuring import interleaved, print_table, prose_case
from robust_attn.attention.jacobian import LayerJacobian
from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.measure import TokenMeasure
from robust_attn.spectral.lanczos import bidiagonalize, largest_singular_value
from robust_attn.spectral.triplets import as_linear_operator

ACCURACY = 1e-6
POWER_STEPS = 5
SVDS_TOLERANCES = (3e-2, 1e-3)
CASES = (("bert", "random", 0), ("bert", "random", 6), ("minilm", "pretrained", 0), ("minilm", "pretrained", 3))


def eager(layer: AttentionLayer) -> Callable[[Tensor], Tensor]:
    """The unmasked layer on equal masses, as ordinary torch code."""
    query, key, value = (part.flatten(0, 1) for part in (layer.query, layer.key, layer.value))
    output = layer.stacked_output.T.contiguous()

    def split(field: Tensor) -> Tensor:
        return field.unflatten(-1, (layer.heads, -1)).transpose(-2, -3)

    def function(points: Tensor) -> Tensor:
        q = split(linear(points, query, layer.query_bias.flatten()))
        k = split(linear(points, key, layer.key_bias.flatten()))
        attention = (q @ k.transpose(-1, -2) * layer.scale).softmax(-1)
        mixed = attention @ split(linear(points, value))
        return linear(mixed.transpose(-2, -3).flatten(-2), output, layer.offset)

    return function


def power_iterations(operator: LayerJacobian, exact: float, limit: int) -> int:
    """Iterations of v <- J^T J v / |J^T J v| until |J v| is within ACCURACY of the exact value; `limit` if never."""
    v = torch.randn(operator.domain, generator=torch.Generator().manual_seed(1), dtype=operator.dtype)
    for iteration in range(1, limit + 1):
        image = operator.jvp(v / v.norm())
        if float(image.norm()) >= exact * (1 - ACCURACY):
            return iteration
        v = operator.vjp(image)
    return limit


def oracle_steps(operator: LayerJacobian, exact: float, steps: int) -> int:
    """Lanczos steps until the value is within ACCURACY of the exact one: the oracle that also stops power iteration."""
    start = torch.randn(operator.domain, generator=torch.Generator().manual_seed(0), dtype=operator.dtype)
    matrix = bidiagonalize(operator, start, steps).matrix()[0]
    near = [float(torch.linalg.svdvals(matrix[:k, :k])[0]) >= exact * (1 - ACCURACY) for k in range(1, steps + 1)]
    return near.index(True) + 1 if any(near) else steps


def power_step(layer: AttentionLayer, measure: TokenMeasure) -> Callable[[], Tensor]:
    function, points = eager(layer), measure.points
    pull = torch.func.vjp(function, points)[1]
    tangent = torch.randn(points.shape, generator=torch.Generator().manual_seed(1), dtype=points.dtype)
    return lambda: pull(torch.func.jvp(function, (points,), (tangent,))[1])[0]


def ours(layer: AttentionLayer, measure: TokenMeasure, steps: int = 256) -> tuple[float, int]:
    generator = torch.Generator().manual_seed(0)
    found = largest_singular_value(layer.linearize(measure), generator=generator, steps=steps, tolerance=ACCURACY)
    return float(found.lower), found.steps


def by_scipy(layer: AttentionLayer, measure: TokenMeasure, tolerance: float) -> float:
    operator = as_linear_operator(layer.linearize(measure))
    start = torch.randn(operator.shape[1], generator=torch.Generator().manual_seed(0), dtype=layer.dtype).numpy()
    return float(scipy_svds(operator, k=1, tol=tolerance, v0=start, return_singular_vectors=False)[0])


def compare(case: tuple[str, str, int], tokens: int, repeats: int, limit: int) -> list[str]:
    layer, measure = prose_case(*case, tokens)
    operator = layer.linearize(measure)
    tight = largest_singular_value(operator, generator=torch.Generator().manual_seed(2), steps=300, tolerance=1e-8)
    exact, step = float(tight.lower), power_step(layer, measure)
    iterations = power_iterations(operator, exact, limit)
    step()  # the first call of torch.func pays for its set-up, which is not an iteration
    found: dict[str, tuple[float, int]] = {}

    def scipys(tolerance: float) -> Callable[[], None]:
        return lambda: found.update({str(tolerance): (by_scipy(layer, measure, tolerance), 0)})

    mine, loose, tight_svds, once = interleaved(
        [
            lambda: found.update(ours=ours(layer, measure)),
            *(scipys(tolerance) for tolerance in SVDS_TOLERANCES),
            lambda: [step() for _ in range(POWER_STEPS)],
        ],
        repeats,
    )
    steps = found["ours"][1]
    oracle = oracle_steps(operator, exact, steps)
    plain = once / POWER_STEPS * iterations
    mark = ">" if iterations == limit else ""
    ratios = [f"{mark}{plain / mine:.1f}", f"{mark}{plain / (mine * oracle / steps):.1f}"]
    ratios += [f"{loose / mine:.2f}", f"{tight_svds / mine:.2f}"]
    errors = [f"{abs(found[key][0] / exact - 1):.0e}" for key in ("ours", *map(str, SVDS_TOLERANCES))]
    counts = [f"{exact:.5g}", f"{steps}/{oracle}", f"{mark}{iterations}"]
    times = [f"{mine:.2f}", f"{mark}{plain:.2f}", f"{loose:.2f}", f"{tight_svds:.2f}"]
    return [f"{case[0]}:{case[1]}:{case[2]}", str(tokens), *counts, *times, *ratios, *errors]


def against_jacrev(tokens: int, repeats: int) -> list[str]:
    layer, measure = prose_case("bert", "random", 0, tokens)
    size = measure.points.numel()

    def dense() -> Tensor:
        return torch.linalg.svdvals(torch.func.jacrev(eager(layer))(measure.points).reshape(size, size))[0]

    exact = float(dense())
    mine, whole = interleaved([lambda: ours(layer, measure), dense], repeats)
    error = abs(ours(layer, measure)[0] / exact - 1)
    return [str(tokens), str(size), f"{mine:.3f}", f"{whole:.2f}", f"{whole / mine:.0f}", f"{error:.0e}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one layer, n = 64, one repeat")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--lengths", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--dense", type=int, nargs="*", default=[2, 4], help="lengths for jacrev")
    parser.add_argument("--cases", type=int, nargs="+", default=range(len(CASES)), help="which of CASES")
    parser.add_argument("--limit", type=int, default=300, help="power iterations counted at most; '>' marks the limit")
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases, lengths = ([0], [64]) if options.quick else (options.cases, options.lengths)
    repeats, limit = (1, 200) if options.quick else (options.repeats, options.limit)
    names = [f"svds {tolerance:g}" for tolerance in SVDS_TOLERANCES]
    header = [
        "layer",
        "n",
        "|D|",
        "steps own/oracle",
        "power its",
        "ours s",
        "power s",
        *(f"{name} s" for name in names),
    ]
    header += ["power/ours", "power/ours, both by oracle", *(f"{name}/ours" for name in names)]
    header += ["our error", *(f"{name} error" for name in names)]
    print("  ".join(header), flush=True)
    rows = []
    for case in cases:
        for tokens in lengths:
            rows.append(compare(CASES[case], tokens, repeats, limit))
            print("  ".join(rows[-1]), flush=True)
    print_table(header, rows)
    print_table(
        ["n", "dimension", "ours s", "jacrev+svd s", "ratio", "difference"],
        [against_jacrev(tokens, 1) for tokens in ([2] if options.quick else options.dense)],
    )


if __name__ == "__main__":
    main()
