"""Lipschitz constants out of records: measured at given tokens, or searched for in a ball of tokens."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.numerals import integer_at, number_at, plain
from robust_attn.report.rows import Row, row_of
from robust_attn.report.trends import fitted_slope

SEARCH_NAME = "worst-case search"


@dataclass(frozen=True)
class Constant:
    """The local Lipschitz constant of a layer at the tokens of one sample: reached from below, limited from above.

    `scaled_to` is the radius that tokens were stretched to, None where they are as the model makes them; `released`
    is what the paper's released code calls the constant.
    """

    layer: int | None
    sample: int | None
    tokens: int | None
    radius: float | None
    scaled_to: float | None
    lower: float | None
    upper: float | None
    failure_probability: float | None
    released: float | None


@dataclass(frozen=True)
class Growth:
    """The mean constant of a layer (at one radius) by number of tokens, and the exponent of the power law."""

    layer: int | None
    scaled_to: float | None
    means: dict[int, float]
    exponent: float | None

    @property
    def name(self) -> str:
        """The layer in words, with the radius of its tokens where they were scaled."""
        return f"layer {self.layer}" + ("" if self.scaled_to is None else f", radius {plain(self.scaled_to)}")


def constant_of(record: dict[str, Any]) -> Constant:
    """The constant of one record."""
    return Constant(
        layer=integer_at(record, "layer"),
        sample=integer_at(record, "sample"),
        tokens=integer_at(record, "tokens"),
        radius=number_at(record, "radius"),
        scaled_to=number_at(record, "scaled_to"),
        lower=number_at(record, "lipschitz.lower"),
        upper=number_at(record, "lipschitz.upper"),
        failure_probability=number_at(record, "lipschitz.failure_probability"),
        released=number_at(record, "released"),
    )


def constants_of(records: Iterable[dict[str, Any]]) -> tuple[Constant, ...]:
    """Every constant of whole layers; those of single heads are another question."""
    return tuple(constant_of(record) for record in records if integer_at(record, "head") is None)


def growth_of(constants: Sequence[Constant]) -> tuple[Growth, ...]:
    """One line per layer and radius, in order: means over samples of what was reached, as the terminal shows them."""
    groups: defaultdict[tuple[float, float], list[Constant]] = defaultdict(list)
    for constant in constants:
        if constant.tokens is not None and constant.lower is not None and constant.lower > 0:
            layer = math.inf if constant.layer is None else constant.layer
            groups[layer, -math.inf if constant.scaled_to is None else constant.scaled_to].append(constant)
    return tuple(_growth(groups[place]) for place in sorted(groups))


def _growth(constants: Sequence[Constant]) -> Growth:
    values: defaultdict[int, list[float]] = defaultdict(list)
    for constant in constants:
        values[constant.tokens or 0].append(constant.lower or 0.0)
    means = {tokens: sum(found) / len(found) for tokens, found in sorted(values.items())}
    points = [(math.log(tokens), math.log(mean)) for tokens, mean in means.items() if tokens > 0]
    exponent = fitted_slope(points) if len(points) > 1 else None
    return Growth(constants[0].layer, constants[0].scaled_to, means, exponent)


def search_row(record: dict[str, Any]) -> Row:
    """A search as a row whose changes are per unit of input change: the gain found against the gain proved."""
    certified = record.get("certified")
    fields: dict[str, Any] = certified if isinstance(certified, dict) else {}
    found = number_at(record, "lipschitz.lower")
    return row_of(
        record
        | {
            "attack": SEARCH_NAME,
            "observed": {"input_change": 1.0, "output_change": found, "gain": found},
            "certified": fields | {"output_change": fields.get("constant")},
        }
    )
