"""Small random cases for the comparison with exact arithmetic, and the inputs that once had a false certificate.

Ordinary cases, and cases that are hard on floating point: weights that cancel, points far from the origin with tiny
differences, scales that are negative, zero or tiny, logits from nothing to 1e9, layers and tokens in float32 and
bfloat16.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from robust_attn.attention.layer import AttentionLayer
from robust_attn.attention.mask import Mask
from robust_attn.attention.measure import TokenMeasure
from robust_attn.attention.rotary import Rotary
from robust_attn.budget import BUDGETS, Budget, Frobenius, TokenRadius, Wasserstein

FUNCTIONS = {
    "certify": 8,
    "certify deterministic": 6,
    "certified_radius": 3,
    "certified_radius deterministic": 2,
    "certify_measures": 7,
    "local_lipschitz": 3,
    "split_lipschitz": 3,
}
"""What is called, and how often in comparison with the others."""
FAR = ("1500 and 2^-13", "1e8 and 1e-9", "far")
"""Layouts whose points are far from the origin and near to one another: one case in seven has nothing else about it."""


@dataclass(frozen=True, eq=False)
class Case:
    """One call of a public function; `tolerance` is for a certified radius, `weights` for a local constant.

    `kind` says how it was drawn; it is empty for a known input.
    """

    name: str
    function: str
    layer: AttentionLayer
    measure: TokenMeasure
    budget: Budget
    tolerance: float = 1.0
    weights: Tensor | None = None
    kind: str = ""
    seed: int = 0


def drawn(seed: int) -> Case:
    """The case of a seed."""
    draw, g = random.Random(seed), torch.Generator().manual_seed(seed)
    function = draw.choices(list(FUNCTIONS), weights=list(FUNCTIONS.values()))[0]
    far = draw.random() < 0.15
    n, d = draw.randint(2 if far else 1, 4), draw.randint(1, 4)
    points, layout = _points(draw, g, n, d, FAR if far else None)
    layer, kind = _layer(draw, g, points, "ordinary" if far else None)
    masses, weighing = _masses(draw, g, n)
    stored = draw.choice(("float64", "float64", "float64", "float32", "float32", "bfloat16"))
    dtype = getattr(torch, stored)
    if draw.random() < 0.3:
        points = torch.where(masses[:, None] > 0, points, points * 10 ** draw.uniform(-6, 12))
    positions, order = _positions(draw, n)
    measure = TokenMeasure(points.to(dtype), masses.to(dtype), positions)
    layer = layer.to(dtype)
    words = [kind, layout, weighing, order, stored]
    if draw.random() < 0.05:
        measure, words = measure.to(torch.float64), [*words, "float64 tokens"]
    if stored == "float64" and draw.random() < 0.08:
        layer, measure = _in_other_units(draw, layer, measure)
        words = [*words, "other units"]
    exact = measure.to(torch.float64)
    size = float(exact.radius)
    budget = _budget(draw, function, exact, size, far=far)
    outputs = float(layer.output.double().norm()) * float(layer.value.double().norm()) * (size or 1.0)
    tolerance = min(max((outputs or 1.0) * 10 ** draw.uniform(-12, 0.5), 1e-200), 1e200)
    weights = _weights(draw, g, exact)
    return Case(f"seed {seed}", function, layer, measure, budget, tolerance, weights, " ".join(words), seed)


def _in_other_units(
    draw: random.Random, layer: AttentionLayer, measure: TokenMeasure
) -> tuple[AttentionLayer, TokenMeasure]:
    """The same layer but for powers of ten, as large and small as a float bears: logits stay as they are."""
    most = draw.choice((10.0, 30.0, 58.0))
    powers = [draw.choice((-most, -most, most, draw.uniform(-most, most))) for _ in range(4)]
    balanced = min(max(-2 * powers[0] - powers[1], -most), most)
    token, query, value, output, key = (10**power for power in (*powers, balanced))
    scaled = replace(
        layer,
        query=layer.query * query,
        query_bias=layer.query_bias * query * token,
        key=layer.key * key,
        key_bias=layer.key_bias * key * token,
        value=layer.value * value,
        output=layer.output * output,
        scale=layer.scale / query / key / token / token,
    )
    return scaled, measure.with_points(measure.points * token)


def _weights(draw: random.Random, g: torch.Generator, measure: TokenMeasure) -> Tensor | None:
    """None for the masses; ones, or any numbers, for the tokens that have mass."""
    logs = torch.randn(measure.length, generator=g, dtype=torch.float64)
    return draw.choice((None, measure.present.double(), measure.present * (2 * logs).exp()))


def _budget(draw: random.Random, function: str, measure: TokenMeasure, size: float, *, far: bool) -> Budget:
    """Any size relative to the tokens, or to their differences; `far` asks for small parts of the latter."""
    spread = float((measure.points - measure.points[:1]).norm(dim=-1).max())
    unit = (spread if far else draw.choice((size, size, spread))) or size or 1.0
    power = draw.choice((draw.uniform(-12, -3), draw.uniform(-3, 0), draw.uniform(-0.5, 3)))
    power = draw.uniform(-6, 0) if far else power if draw.random() < 0.98 else draw.uniform(-150, -12)
    radius = unit * 10**power
    number = math.nextafter((size or 1.0) * 10 ** draw.choice((0.0, draw.uniform(0, 2))), math.inf) * (1 + 1e-15)
    if function == "certify_measures":
        support = draw.choices((TokenRadius(), number, None), weights=(3, 6, 0.3))[0]
        return Wasserstein(radius, support if size > 0 or support is None else number)
    support = draw.choices((None, TokenRadius(), number), weights=(6, 2, 2))[0]
    kinds: list[type[Budget]] = [*BUDGETS.values(), Wasserstein]
    return draw.choice(kinds)(radius, support)


def _points(draw: random.Random, g: torch.Generator, n: int, d: int, among: Sequence[str] | None) -> tuple[Tensor, str]:
    normal = torch.randn(n, d, generator=g, dtype=torch.float64)
    steps = torch.randint(-12, 13, (n, d), generator=g).double() * 2**-13
    axis = torch.arange(d) == draw.randrange(d)
    layouts: dict[str, tuple[float, Tensor]] = {
        "normal": (9, normal * 10 ** draw.uniform(-1.5, 1)),
        "constant": (1, normal[:1].expand(n, d).clone()),
        "repeated": (1, torch.cat((normal[:1], normal[-1:].expand(n - 1, d)))),
        "one far": (1, torch.cat((normal[:1] * 10 ** draw.uniform(1, 6), normal[1:]))),
        "tiny": (2, normal * 10 ** draw.uniform(-12, -5)),
        "1500 and 2^-13": (3, 1500 + steps),
        "1e8 and 1e-9": (3.5, torch.where(axis, 1e8, normal * 1e-9)),
        "far": (3, normal[:1] * 10 ** draw.uniform(1, 7) + normal * 10 ** draw.uniform(-6, 0)),
        "zero": (0.3, torch.zeros(n, d, dtype=torch.float64)),
    }
    names = list(layouts) if among is None else list(among)
    kind = draw.choices(names, weights=[layouts[name][0] for name in names])[0]
    return layouts[kind][1], kind


def _masses(draw: random.Random, g: torch.Generator, n: int) -> tuple[Tensor, str]:
    kind = draw.choice(("uniform", "uniform", "unequal", "extreme", "light", "padded"))
    logs = torch.randn(n, generator=g, dtype=torch.float64)
    match kind:
        case "unequal":
            masses = logs.softmax(-1)
        case "extreme":
            masses = (8 * logs).softmax(-1)
        case "light":
            masses = torch.ones(n, dtype=torch.float64)
            masses[draw.randrange(n)] = 10 ** draw.uniform(-12, -3) if n > 1 else 1.0
        case "padded":
            masses = (torch.rand(n, generator=g) < 0.6).double()
            masses[draw.randrange(n)] = 1.0
        case _:
            masses = torch.ones(n, dtype=torch.float64)
    return masses / masses.sum(), kind


def _positions(draw: random.Random, n: int) -> tuple[Tensor, str]:
    """In order mostly; also shared, in any order, or far along the sequence."""
    kind = draw.choices(("in order", "shared", "any order", "late"), weights=(10, 1, 1, 1))[0]
    orders = {
        "in order": list(range(n)),
        "shared": sorted(draw.randrange(n) for _ in range(n)),
        "any order": draw.sample(range(n), n),
        "late": [100_000 + 7 * index for index in range(n)],
    }
    return torch.tensor(orders[kind]), kind


def _layer(draw: random.Random, g: torch.Generator, points: Tensor, kind: str | None) -> tuple[AttentionLayer, str]:
    d, rotary = points.shape[-1], draw.random() < 0.2
    heads = draw.randint(1, 3)
    groups = draw.choice((heads, 1))
    width, value_width, out = draw.randint(1, 4), draw.randint(1, 4), draw.randint(1, 4)
    width = 2 * ((width + 1) // 2) if rotary else width

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=g, dtype=torch.float64)

    has_bias = draw.random() < 0.4
    layer = AttentionLayer(
        query=normal(heads, width, d),
        query_bias=normal(heads, width) * has_bias * 10 ** draw.uniform(-3, 1),
        key=normal(groups, width, d),
        key_bias=normal(groups, width) * has_bias * 10 ** draw.uniform(-3, 1),
        value=normal(groups, value_width, d),
        output=normal(heads, out, value_width) * 10 ** draw.uniform(-1, 1),
        offset=normal(out) * draw.choice((0.0, 1.0, 1e6)),
        scale=_scale(draw, width),
        mask=draw.choice((Mask.NONE, Mask.NONE, Mask.CAUSAL)),
        rotary=Rotary(torch.rand(width // 2, generator=g), draw.choice((1.0, 1.0, 0.7, 1.3, -1.0))) if rotary else None,
    )
    if draw.random() < 0.8:
        layer = _with_logits(draw, layer, points)
    if kind is None:
        kind = draw.choices(list(KINDS), weights=[weight for weight, _ in KINDS.values()])[0]
    return KINDS[kind][1](draw, g, layer, points), kind + (" rotary" if rotary else "")


def _scale(draw: random.Random, width: int) -> float:
    ordinary = width**-0.5
    return draw.choices(
        (
            ordinary,
            -ordinary,
            -(10 ** draw.uniform(-2, 2)),
            0.0,
            10 ** draw.uniform(-15, -3),
            10 ** draw.uniform(1, 6),
            1e-150,
        ),
        weights=(10, 3, 2, 0.7, 2, 1, 0.2),
    )[0]


def _with_logits(draw: random.Random, layer: AttentionLayer, points: Tensor) -> AttentionLayer:
    """Queries scaled so that logits, or what matters of them, their differences in a row, are of a size drawn."""
    size = 10 ** draw.choices((draw.uniform(-1, 1.5), draw.uniform(1.5, 9), draw.uniform(-9, -1)), weights=(7, 2, 1))[0]
    groups = layer.head_groups
    apart = draw.random() < 0.7
    queries = torch.einsum("hkd,nd->hnk", layer.query, points) + layer.query_bias[:, None]
    keys = torch.einsum("hkd,nd->hnk", layer.key[groups], points - points[:1] if apart else points)
    if not apart:
        keys = keys + layer.key_bias[groups][:, None]
    logits = layer.scale * queries @ keys.transpose(-1, -2)
    largest = float(logits.abs().max())
    factor = size / largest if largest > 0 else 1.0
    if not 1e-100 < factor < 1e100:
        return layer
    return replace(layer, query=layer.query * factor, query_bias=layer.query_bias * factor)


Change = Callable[[random.Random, torch.Generator, AttentionLayer, Tensor], AttentionLayer]


def _as_it_is(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    return layer


def _values_cancel(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    """One head whose W_V and W_O are large and orthogonal up to rounding."""
    head, width = layer.head(0), max(2, layer.value.shape[1])
    column, row = _orthogonal(draw, g, width)
    left, right = (torch.randn(size, generator=g, dtype=torch.float64) for size in (layer.out_width, layer.width))
    return replace(
        head,
        value=(column[:, None] * right)[None] * _large(draw),
        output=(left[:, None] * row)[None] * _large(draw),
        offset=layer.offset,
    )


def _logits_cancel(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    """One head whose W_Q and W_K are large and orthogonal up to rounding."""
    head, width = layer.head(0), max(2, layer.query.shape[1])
    column, row = _orthogonal(draw, g, width)
    left, right = torch.randn(2, layer.width, generator=g, dtype=torch.float64)
    pad = (0, width - layer.query.shape[1])
    return replace(
        head,
        query=(column[:, None] * left)[None] * _large(draw),
        query_bias=torch.nn.functional.pad(head.query_bias, pad),
        key=(row[:, None] * right)[None] * _large(draw),
        key_bias=torch.nn.functional.pad(head.key_bias, pad) * draw.choice((0.0, 1.0)),
        scale=layer.scale if draw.random() < 0.3 else math.copysign(1.0, layer.scale),
        offset=layer.offset,
    )


def _bias_cancels(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    """Queries, and in half of the cases keys, that vanish at one token up to rounding."""
    query, point = layer.query * _large(draw), points[draw.randrange(len(points))]
    key_bias = -(layer.key @ point) if draw.random() < 0.5 else layer.key_bias
    return replace(layer, query=query, query_bias=-(query @ point), key_bias=key_bias)


def _heads_cancel(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    """Two large heads that nearly are the negatives of one another."""
    head, twice = layer.head(0), [0, 0]
    noise = draw.choice((0.0, 1e-15, 1e-9)) * torch.randn(head.output.shape, generator=g, dtype=torch.float64)
    return replace(
        head,
        query=torch.cat((head.query, head.query * (1 + draw.choice((1e-14, 1e-9, 1e-3))))),
        query_bias=head.query_bias[twice],
        key=head.key[twice],
        key_bias=head.key_bias[twice],
        value=head.value[twice] * _large(draw),
        output=torch.cat((head.output, -head.output * (1 + noise))) * _large(draw),
        offset=layer.offset,
    )


def _one_row(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    first = (torch.arange(layer.query.shape[1]) == 0)[:, None]
    return replace(layer, query=layer.query * first, key=layer.key * first)


def _no_values(draw: random.Random, g: torch.Generator, layer: AttentionLayer, points: Tensor) -> AttentionLayer:  # noqa: ARG001
    return replace(layer, value=torch.zeros_like(layer.value))


KINDS: dict[str, tuple[float, Change]] = {
    "ordinary": (10, _as_it_is),
    "values cancel": (2.5, _values_cancel),
    "logits cancel": (2.5, _logits_cancel),
    "bias cancels": (1.5, _bias_cancels),
    "heads cancel": (1.5, _heads_cancel),
    "one row": (1, _one_row),
    "no values": (0.3, _no_values),
}
"""Layers that are hard on floating point, and how often each is drawn in comparison with the others."""


def _large(draw: random.Random) -> float:
    return float(10 ** draw.uniform(1, 9))


def _orthogonal(draw: random.Random, g: torch.Generator, width: int) -> tuple[Tensor, Tensor]:
    """Two vectors with an inner product that is nothing but rounding; in half of the cases with few bits each."""
    column, row = torch.randn(2, width, generator=g, dtype=torch.float64)
    if draw.random() < 0.5:
        column, row = column.float().double(), row.float().double()
    row[-1] = -(row[:-1] @ column[:-1]) / column[-1]
    return column, row


def known() -> list[Case]:
    """The inputs of issue 13, each with a certificate that was false when it was found."""
    return [
        Case(
            "1 large support",
            "certify_measures",
            AttentionLayer.single_head(_matrix(8), _matrix(1)),
            TokenMeasure.uniform(_column(1, 0.5)),
            Wasserstein(0.01, support=10.0),
        ),
        Case(
            "2 float32",
            "certify",
            AttentionLayer.single_head(_matrix(3), _matrix(1)).to(torch.float32),
            TokenMeasure.uniform((1500 + _column(0, 10, -6) * 2**-13).float()),
            Wasserstein(1e-7),
        ),
        Case(
            "3 negative scale",
            "certify",
            replace(AttentionLayer.single_head(_matrix(4), _matrix(1)), scale=-1.0),
            TokenMeasure.uniform(_column(0, 0.2, 1)),
            Wasserstein(2.0),
        ),
        _against_seed_zero(),
        *_vanishing_values(),
        _vanishing_interaction(),
        _far_tokens(),
    ]


def _matrix(*entries: float) -> Tensor:
    return torch.tensor([entries], dtype=torch.float64)


def _column(*entries: float) -> Tensor:
    return torch.tensor(entries, dtype=torch.float64)[:, None]


def _against_seed_zero(size: int = 100) -> Case:
    """V with 1.03 in a direction orthogonal to the start that seed zero draws, and at most 1 elsewhere."""
    start = torch.randn(1, 1, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64).flatten()
    others = torch.randn(size, size, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    hidden = others[:, 0] - start * (start @ others[:, 0]) / (start @ start)
    basis = torch.linalg.qr(torch.cat((hidden[:, None], others[:, 1:]), dim=1)).Q
    angles = torch.linspace(0.0, math.pi, size - 1, dtype=torch.float64)
    V = (basis[:, 1:] * (1 - angles.cos()) / 2) @ basis[:, 1:].T + 1.03 * torch.outer(basis[:, 0], basis[:, 0])
    points = torch.zeros(1, size, dtype=torch.float64)
    layer = AttentionLayer.single_head(torch.zeros_like(V), V)
    return Case("4 against seed 0", "certify", layer, TokenMeasure.uniform(points), Wasserstein(0.1))


ALMOST = (193676382.75364074, 130834106.55662285, 189803495.42310098, 280969965.66896015)
"""x, y, p, q with x p = y q in float64, where x p - y q = 7.447... exactly."""
ALMOST_SMALL = (113098162.38979153, 162674582.70475358, 167524418.13517419, 116469970.48638268)
"""The same with 0.43999..."""


def _vanishing_values() -> list[Case]:
    x, y, p, q = ALMOST
    layer = AttentionLayer(
        query=torch.zeros(1, 1, 1).double(),
        query_bias=torch.zeros(1, 1).double(),
        key=torch.zeros(1, 1, 1).double(),
        key_bias=torch.zeros(1, 1).double(),
        value=_column(p, q)[None],
        output=_matrix(x, -y)[None],
        offset=torch.zeros(1).double(),
        scale=1.0,
    )
    measure, budget = TokenMeasure.uniform(_column(0, 1)), Wasserstein(1.0)
    return [
        Case("5 values cancel", "certify", layer, measure, budget),
        Case("5 values cancel", "certified_radius", layer, measure, budget, tolerance=1.0),
    ]


def _vanishing_interaction() -> Case:
    x, y, p, q = ALMOST_SMALL
    layer = AttentionLayer(
        query=_column(p, q)[None],
        query_bias=torch.zeros(1, 2).double(),
        key=_column(x, -y)[None],
        key_bias=torch.zeros(1, 2).double(),
        value=_matrix(1)[None],
        output=_matrix(1)[None],
        offset=torch.zeros(1).double(),
        scale=1.0,
    )
    return Case("5 logits cancel", "certify", layer, TokenMeasure.uniform(_column(1e-7, -1e-7)), Wasserstein(10.0))


def _far_tokens() -> Case:
    A = torch.zeros(3, 3, dtype=torch.float64)
    A[1, 0] = 1e14
    points = torch.tensor([[1e8, 0, 0], [1e8, 0, 1e-9]], dtype=torch.float64)
    layer = AttentionLayer.single_head(A, _matrix(1, 0, 1))
    return Case("5 far tokens", "certify", layer, TokenMeasure.uniform(points), Frobenius(1e-12))
