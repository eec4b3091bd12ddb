"""Certificates as a table of layers and heads: what they are made of, what is certified, and up to which radius."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.numerals import at_least, integer_at, number_at, plain
from robust_attn.report.rows import largest, row_of, worst_verdict
from robust_attn.types import Verdict

UNBOUNDED = "any"


@dataclass(frozen=True)
class CertificateRow:
    """One layer, or one head of it, over all of its samples; None is what is not known of every sample.

    Everything is the largest over the samples, except `certified_radius`, the smallest: so both promises cover all of
    them. `radius` is that of the tokens with the budget's reach; `mixing` is c_n, the attention one token can draw.
    """

    layer: int | None
    head: int | None
    samples: int
    radius: float | None
    value: float | None
    interaction: float | None
    kappa: float | None
    mixing: float | None
    lower: float | None
    upper: float | None
    paper_log10: float | None
    certified: float | None
    bound: str
    tolerance: float | None
    certified_radius: float | None
    radius_bound: str
    verdict: Verdict

    @property
    def place(self) -> str:
        """3 for layer 3, 3.0 for its first head."""
        layer = "—" if self.layer is None else str(self.layer)
        return layer if self.head is None else f"{layer}.{self.head}"

    @property
    def radius_shown(self) -> str:
        """The certified radius rounded down, so that the promise still holds at what is printed."""
        return UNBOUNDED if self.certified_radius == math.inf else at_least(self.certified_radius)


def certificate_rows(records: Iterable[dict[str, Any]]) -> tuple[CertificateRow, ...]:
    """A row per layer and head, each layer before its heads, of those records that tell their norms."""
    groups: defaultdict[tuple[float, float], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        if isinstance(record.get("norms"), dict):
            layer, head = integer_at(record, "layer"), integer_at(record, "head")
            groups[math.inf if layer is None else layer, -1 if head is None else head].append(record)
    return tuple(_row(groups[place]) for place in sorted(groups))


def _row(records: Sequence[dict[str, Any]]) -> CertificateRow:
    rows = [row_of(record) for record in records]
    widest = max(rows, key=lambda row: math.inf if row.certified is None else row.certified)
    shortest = min(records, key=lambda record: -1.0 if (found := radius_of(record)) is None else found)
    asked = shortest.get("certified_radius")
    return CertificateRow(
        layer=widest.layer,
        head=widest.head,
        samples=len(records),
        **{name: _largest(records, f"norms.{name}") for name in ("radius", "value", "interaction", "kappa", "mixing")},
        lower=_largest(records, "lipschitz.lower"),
        upper=_largest(records, "lipschitz.upper"),
        paper_log10=largest(row.paper_log10 for row in rows),
        certified=widest.certified,
        bound=widest.bound,
        tolerance=number_at(shortest, "certified_radius.tolerance"),
        certified_radius=radius_of(shortest),
        radius_bound=str((asked if isinstance(asked, dict) else {}).get("bound") or ""),
        verdict=worst_verdict(row.verdict for row in rows),
    )


def radius_of(record: dict[str, Any]) -> float | None:
    """The certified radius of a record, infinite where the record says that it is unbounded; None if not known."""
    asked = record.get("certified_radius")
    if isinstance(asked, dict) and asked.get("unbounded") is True:
        return math.inf
    return number_at(record, "certified_radius.radius")


def _largest(records: Sequence[dict[str, Any]], path: str) -> float | None:
    values = [number_at(record, path) for record in records]
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def radius_promise(rows: Sequence[CertificateRow]) -> str:
    """What the certified radii of whole layers promise; nothing where none was asked for."""
    layers = [row for row in rows if row.head is None and row.tolerance is not None]
    if any(row.verdict is Verdict.VIOLATED for row in layers):
        return "No radius is promised: a certificate that was broken does not certify."
    known = [row for row in layers if row.certified_radius is not None]
    missing = [str(row.layer) for row in layers if row.certified_radius is None]
    sentences = [_radii(known)] if known else []
    sentences += [f"No radius is promised for layer {', '.join(missing)}."] if missing else []
    return " ".join(sentences)


def _radii(rows: Sequence[CertificateRow]) -> str:
    low = min(rows, key=_size)
    high = max(rows, key=_size)
    amount, where = plain(low.tolerance), "in the norm of the budget"
    if len(rows) == 1:
        return (
            f"For the same inputs, the output of layer {low.layer} changes by at most {amount} under every "
            f"perturbation of size at most {low.radius_shown} ({where})."
        )
    return (
        f"For the same inputs, the output of each attention layer changes by at most {amount} under every perturbation "
        f"of size at most the radius listed for it ({where}): from {low.radius_shown} in layer {low.layer} to "
        f"{high.radius_shown} in layer {high.layer}."
    )


def smallest_radius(rows: Sequence[CertificateRow]) -> CertificateRow | None:
    """The layer with the smallest certified radius, or one without any; None where no radius was asked for."""
    layers = [row for row in rows if row.head is None and row.tolerance is not None]
    return min(layers, key=_size, default=None)


def _size(row: CertificateRow) -> float:
    """An unknown radius comes before every other."""
    return -1.0 if row.certified_radius is None else row.certified_radius
