"""Certificates of layers and heads: what they are made of, what is certified, and up to which radius."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from robust_attn.records.kinds import CertifyRecord
from robust_attn.records.parts import Constant, RadiusPart
from robust_attn.records.verdicts import worst_verdict
from robust_attn.types import Verdict
from robust_attn.views.ladder import paper_log10
from robust_attn.views.layers import covers_of, promised, verdict_of
from robust_attn.views.numerals import at_least, at_most, plain, power_of_ten
from robust_attn.views.panel import MapCell, Panel
from robust_attn.views.table import Fields, Table, constants, counts, numbers, perhaps, table_of, texts, verdicts
from robust_attn.views.view import Tile
from robust_attn.views.words import COVERS, covering, largest, listed, part_of

LABELLED_HEADS = 12
"""Heads of a layer up to which every cell of the map carries its number."""
UNBOUNDED = "any"


@dataclass(frozen=True)
class CertificateRow:
    """One layer, or one head of it, over all of its samples.

    `widest` has the largest promise and `shortest` the smallest certified radius, so that both cover all of them.
    """

    layer: int | None
    head: int | None
    records: tuple[CertifyRecord, ...]
    widest: CertifyRecord
    shortest: CertifyRecord

    @property
    def certified(self) -> float | None:
        """What the output is promised not to exceed, in any sample."""
        return self.widest.certified.output_change

    @property
    def asked(self) -> RadiusPart | None:
        """The smallest certified radius; None if no radius was asked for."""
        return self.shortest.certified_radius

    @property
    def tolerance(self) -> float | None:
        """The change that the certified radius keeps; None if no radius was asked for."""
        return self.asked.tolerance if self.asked else None

    @property
    def radius_shown(self) -> str:
        """The certified radius as it is printed."""
        return _shown(radius_of(self.shortest))

    @property
    def constant(self) -> Constant:
        """The largest local constant over the samples, from both sides."""
        lower, upper = self.largest(lambda r: r.lipschitz.lower), self.largest(lambda r: r.lipschitz.upper)
        return Constant(lower=lower, upper=upper)

    @property
    def verdict(self) -> Verdict:
        """The worst over the samples."""
        return worst_verdict(map(verdict_of, self.records)) or Verdict.UNKNOWN

    def largest(self, value: Callable[[CertifyRecord], float | None]) -> float | None:
        """The largest over the samples, None as soon as one is not known."""
        return covering(map(value, self.records))


def certificate_rows(records: Iterable[CertifyRecord]) -> tuple[CertificateRow, ...]:
    """A row per layer and head, each layer before its heads."""
    groups: defaultdict[tuple[float, float], list[CertifyRecord]] = defaultdict(list)
    for record in records:
        layer, head = record.layer, record.head
        groups[math.inf if layer is None else layer, -1 if head is None else head].append(record)
    ordered = (tuple(found) for _, found in sorted(groups.items()))
    return tuple(
        CertificateRow(each[0].layer, each[0].head, each, max(each, key=promised), min(each, key=_radius_or_none))
        for each in ordered
    )


def radius_of(record: CertifyRecord) -> float | None:
    """The certified radius of a record, infinite where the record says that it is unbounded; None if not known."""
    asked = record.certified_radius
    return None if asked is None else math.inf if asked.unbounded else asked.radius


def _radius_or_none(record: CertifyRecord) -> float:
    """An unknown radius comes before every other."""
    radius = radius_of(record)
    return -1.0 if radius is None else radius


def certificate_table(rows: Sequence[CertificateRow], noun: str) -> Table:
    """Norms, constants, promises and radii by layer and head."""
    asked = next((row.tolerance for row in rows if row.tolerance is not None), None)
    budget = rows[0].widest.budget
    head: Fields[CertificateRow] = (counts("Head", lambda row: row.head),)
    radius: Fields[CertificateRow] = (
        numbers(f"Radius for {plain(asked)}", lambda row: radius_of(row.shortest), _shown),
    )
    together: Fields[CertificateRow] = (texts("Radius by", _other_bound, code=True, optional=True),)
    fields: Fields[CertificateRow] = (
        counts("Layer", lambda row: row.layer),
        *(head if any(row.head is not None for row in rows) else ()),
        verdicts(lambda row: row.verdict),
        numbers("Moves at most", lambda row: row.certified, at_most),
        *(radius if asked is not None else ()),
        constants("Local constant", lambda row: row.constant),
        texts("Certified by", lambda row: row.widest.certified.bound, code=True, optional=True),
        perhaps("R", lambda row: row.largest(lambda record: record.norms.radius), optional=True),
        perhaps("|W_O W_V|", lambda row: row.largest(lambda record: record.norms.value), optional=True),
        perhaps("|A|", lambda row: row.largest(lambda record: record.norms.interaction), optional=True),
        perhaps("κ", lambda row: row.largest(lambda record: record.norms.kappa), optional=True),
        perhaps("c_n", lambda row: row.largest(lambda record: record.norms.mixing), optional=True),
        perhaps("Paper’s bound", lambda row: largest(map(paper_log10, row.records)), power_of_ten, optional=True),
        *(together if asked is not None else ()),
    )
    kept = f", certified radii the smallest: within them the output moves by at most {plain(asked)}"
    covered = ", or ".join(dict.fromkeys(COVERS[covers_of(row.widest)] for row in rows))
    note = (
        f"Covered: {covered}. Over all {noun}s tested, certified changes and norms are the largest"
        f"{kept if asked is not None else ''}. A head is certified alone, with its own part of the output projection; "
        "the norms of a layer are those of its largest head."
    )
    places = "layers and heads" if any(row.head is not None for row in rows) else "layers"
    title = f"Certificates of {places}, {budget.kind} {plain(budget.radius)}"
    return table_of("certificate-table", title, fields, rows, note=note, terminal=True)


def _other_bound(row: CertificateRow) -> str | None:
    """The bound that gives the radius, where it is not the one that certifies the change."""
    return row.asked.bound if row.asked and row.asked.bound != row.widest.certified.bound else None


def _shown(radius: float | None) -> str:
    """Rounded down, so that the promise still holds at what is printed."""
    return UNBOUNDED if radius == math.inf else at_least(radius)


def radius_promise(rows: Sequence[CertificateRow]) -> str:
    """What the certified radii of whole layers promise; nothing where none was asked for."""
    layers = [row for row in rows if row.head is None and row.tolerance is not None]
    if any(row.verdict is Verdict.VIOLATED for row in layers):
        return "No radius is promised: a certificate that was broken does not certify."
    known = [row for row in layers if radius_of(row.shortest) is not None]
    missing = [row.layer for row in layers if radius_of(row.shortest) is None]
    sentences = [_radii(known)] if known else []
    sentences += [f"No radius is promised for layer {listed(missing)}."] if missing else []
    return " ".join(sentences)


def _radii(rows: Sequence[CertificateRow]) -> str:
    low, high = (choose(rows, key=lambda row: _radius_or_none(row.shortest)) for choose in (min, max))
    amount, where = plain(low.tolerance), "in the norm of the budget"
    if len(rows) == 1:
        return (
            f"For the same inputs, the output of layer {low.layer} changes by at most {amount} under every such "
            f"perturbation of size at most {low.radius_shown} ({where})."
        )
    return (
        f"For the same inputs, the output of each attention layer changes by at most {amount} under every such "
        f"perturbation of size at most the radius listed for it ({where}): from {low.radius_shown} in layer "
        f"{low.layer} to {high.radius_shown} in layer {high.layer}."
    )


def radius_tile(rows: Sequence[CertificateRow]) -> tuple[Tile, ...]:
    """The smallest certified radius of a layer; nothing where no radius was asked for."""
    layers = [row for row in rows if row.head is None and row.tolerance is not None]
    if not layers:
        return ()
    least = min(layers, key=lambda row: _radius_or_none(row.shortest))
    meaning = f"smallest over the layers; keeps every output change within {plain(least.tolerance)}"
    return (Tile("Certified radius", least.radius_shown, meaning),)


def heads_panel(rows: Sequence[CertificateRow]) -> Panel | None:
    """The certified gain of every head alone as a map; nothing where fewer than two heads are certified."""
    heads = [row for row in rows if row.head is not None and row.layer is not None and (row.certified or 0.0) > 0]
    if len(heads) < 2:
        return None
    gains = {
        (row.layer or 0, row.head or 0): (row.certified or 0.0) / (row.widest.budget.radius or 1.0) for row in heads
    }
    labelled = max(head for _, head in gains) < LABELLED_HEADS
    cells = tuple(
        MapCell(*place, gain, at_most(gain, 2) if labelled else "", f"{part_of(*place)}: at most {at_most(gain)}")
        for place, gain in gains.items()
    )
    highest, lowest = (choose(gains, key=lambda place: gains[place]) for choose in (max, min))
    told = (
        f"{len(gains)} heads; largest certified gain {at_most(gains[highest])} in {part_of(*highest)}; smallest "
        f"{at_most(gains[lowest])} in {part_of(*lowest)}"
    )
    radius = plain(heads[0].widest.budget.radius)
    caption = (
        f"How far the output of each head alone can move at most, per unit of a perturbation of size {radius}, over "
        "all samples: the stronger the colour, the more. The table of layers and heads has every number."
    )
    return Panel("heads", "Layers and heads", "head", "layer", {}, cells=cells, caption=caption, description=told)
