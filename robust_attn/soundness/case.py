"""A case: everything that a trial of the certificates needs, as plain values that fit in a line of JSON.

A case is drawn from its seed (`drawing.py`); its numbers (weights, tokens, masses) are drawn from the seed and the name
of what they are, in the largest shape there is, and cut to the case's own. So a case with fewer tokens or heads is the
same one with those left out, which is what makes it possible to shrink it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from robust_attn.types import UserError

TOKENS, WIDTH, HEADS, HEAD_WIDTH, OUT = 12, 6, 6, 4, 5
"""The largest shapes, but for weights against a start."""
EXTREME = 1e8
"""Sizes beyond this, or below one over it, may overflow on the way to a bound: UNKNOWN is a right answer there."""
LOST = 1e9, 1e12
"""How many times smaller a change may be than outputs times logits, or than the offset: with more than that, rounding
is too large beside the change, and UNKNOWN is a right answer as well."""
FAR = 30.0
"""How many times farther the token of `one_far` is than the others."""
LIGHT = 1e6
"""How many times farther than others the light tokens of extreme masses may go."""
CANCELLING = ("cancelling_values", "cancelling_logits", "cancelling")
SHIFTED = ("shifted", "shifted_line")
SPARSE = "sparse"
"""So few entries that a product of two such matrices may be zero, or nearly."""
AGAINST_START = ("against_library_start", "against_command_start")
RECORDS, RADII = "attack_records", "certified_radii"
FLOATS, EXACT = "floats", "exact"
KINDS = ("function", "judged", "attack", "budget", "support", "scale", "added", "weights", "points", "masses", "stored")
"""The fields by which cases are counted."""


@dataclass(frozen=True)
class Case:
    """One layer, `samples` measures (by number), an attack, a budget, and the `function` whose promise is attacked.

    `function` is a name of the table in `check.py`; with a `tolerance` certified radii are asked for. `judged` says
    what decides: floats with their rounding, or exact arithmetic. `support`: none, tokens (their largest norm), or
    number, `support_times` the largest norm. `scale`: usual, negative or zero.
    `added` to the logits: nothing, table (a bias by positions), sinks (of value zero), shifted_sinks, or both.
    `weights`: normal, alike (all heads), one_row (of rank one), zero, sparse, blind (keys do not see the last
    coordinate); cancelling_values, cancelling_logits and cancelling (both): W_V and W_O, W_K and W_Q have the size
    `cancelling_size` and are orthogonal up to rounding; against_library_start and against_command_start: the top
    direction is orthogonal to a Lanczos start that once was public.
    `points`: normal, constant, repeated, adversarial (the paper's, for the first head), one_far, shifted (by `distance`
    along the first axis), shifted_line (where only the last coordinate differs). `masses`: uniform, unequal, extreme,
    padded. Sizes multiply normal numbers: `logit_size` queries and keys, `value_size` values, `bias_size` biases,
    `token_size` tokens. `stored` is the precision of the weights, in which functions of the library get the layer.
    """

    seed: int
    attack: str = "move"
    budget: str = "wasserstein"
    radius: float = 1.0
    support: str = "none"
    tolerance: float | None = None
    samples: tuple[int, ...] = (0,)
    tokens: int = 1
    width: int = 1
    groups: int = 1
    sharing: int = 1
    head_width: int = 2
    out: int = 1
    mask: str = "none"
    rotary: bool = False
    added: str = "nothing"
    weights: str = "normal"
    logit_size: float = 1.0
    value_size: float = 1.0
    bias_size: float = 0.0
    points: str = "normal"
    token_size: float = 1.0
    masses: str = "uniform"
    stored: str = "float64"
    function: str = RECORDS
    judged: str = FLOATS
    deterministic: bool = False
    support_times: float = 1.0
    scale: str = "usual"
    cancelling_size: float = 1.0
    distance: float = 0.0

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.groups * self.sharing

    @property
    def called(self) -> str:
        """The entry of the table: cases saved before there was one ask for radii by their tolerance alone."""
        return RADII if self.tolerance is not None and self.function == RECORDS else self.function

    @property
    def extreme(self) -> bool:
        """Whether UNKNOWN is a right answer: sizes, changes lost in rounding, weights that cancel, far points."""
        sizes = (self.logit_size, self.value_size, self.bias_size or 1.0, self.token_size, self.tolerance or 1.0)
        ordinary = all(1 / EXTREME <= size <= EXTREME for size in sizes) and not self._lost
        return not ordinary or self.weights in (*CANCELLING, SPARSE) or self.points in SHIFTED

    @property
    def _lost(self) -> bool:
        """Whether rounding of logits and of the offset is large beside the change that a radius makes."""
        tokens = self.token_size * (FAR if self.points == "one_far" else 1.0) * self.support_times
        reach = tokens + self.radius * (LIGHT if self.masses == "extreme" and self.budget == "wasserstein" else 1.0)
        query = (0.0 if self.weights == "zero" else self.logit_size * reach) + self.bias_size
        logit = 0.0 if self.scale == "zero" else query * (self.logit_size * reach + self.bias_size)
        times = reach * (1 + logit), 1 / self.value_size
        return self.radius > 0 and any(size > limit * self.radius for size, limit in zip(times, LOST, strict=True))

    @property
    def kinds(self) -> dict[str, str]:
        """What is counted of the case."""
        return {name: str(getattr(self, name)) for name in KINDS} | {"function": self.called}

    def plain(self) -> dict[str, Any]:
        """The case as JSON holds it."""
        return asdict(self) | {"samples": list(self.samples)}


def case_from(values: Mapping[str, Any]) -> Case:
    """A case from what `plain` gave; what an older one does not say is as it was then."""
    known = {field.name for field in fields(Case)}
    if "seed" not in values or not set(values) <= known:
        raise UserError(f"a case of the soundness campaign has the fields {', '.join(sorted(known))}.")
    return Case(**{**values, "samples": tuple(values.get("samples", (0,)))})
