"""Local Lipschitz constants: measured at given tokens, and how they grow with the length or the radius of the input."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean

from robust_attn.records.kinds import ConstantRecord, of_kind
from robust_attn.records.store import Run
from robust_attn.views import words
from robust_attn.views.fit import PowerLaw, power_law
from robust_attn.views.numerals import at_least, at_most, plain
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.samples import sample_fields
from robust_attn.views.table import Field, Fields, Table, constants, counts, filled, numbers, perhaps, table_of, texts
from robust_attn.views.view import Headline, Statement, Tile, Tone, View, present
from robust_attn.views.words import counted, covering, largest, listed, part_of

LINES_DRAWN = 8
OURS, RELEASED = "local constant", "released code"


@dataclass(frozen=True)
class Growth:
    """The constant of a layer or head against a size, by one estimator, with whatever else is held fixed."""

    part: str
    fixed: str
    estimator: str
    means: dict[float, float]
    law: PowerLaw

    @property
    def name(self) -> str:
        """The part in words, with what is held fixed."""
        return ", ".join(word for word in (self.part, self.fixed) if word)


@dataclass(frozen=True)
class Axis:
    """What constants are drawn against: its name, how to read it, and what is held fixed then."""

    key: str
    label: str
    letter: str
    size: Callable[[ConstantRecord], float | None]
    fixed: Callable[[ConstantRecord], str]


TOKENS = Axis(
    "tokens",
    "number of tokens",
    "n",
    lambda r: float(r.tokens),
    lambda r: f"R = {plain(r.scaled_to)}" if r.scaled_to else "",
)
RADIUS = Axis("radius", "radius of the tokens", "R", lambda r: r.scaled_to, lambda r: f"n = {r.tokens}")


def constants_view(run: Run) -> View:
    """Local constants of a run."""
    records = of_kind(run.records, ConstantRecord)
    by_length, by_radius = growth_of(records, TOKENS), growth_of(records, RADIUS)
    return View(
        statement=_statement(records),
        tiles=_tiles(records),
        tables=(_growth_table(by_length, TOKENS), *filled(_growth_table(by_radius, RADIUS))),
        panels=present(_panel(by_length, TOKENS), _panel(by_radius, RADIUS)),
        terms=(words.LIPSCHITZ, ("Released code", "What the code released with the paper calls the constant.")),
        details=(_record_table(records),),
        question="how does its sensitivity grow?",
    )


def growth_of(records: Sequence[ConstantRecord], axis: Axis) -> tuple[Growth, ...]:
    """Per layer, head and what is held fixed, both estimators: means over the samples, and a power law over them."""
    groups: defaultdict[tuple[int, int, str, str], list[ConstantRecord]] = defaultdict(list)
    for record in records:
        if axis.size(record) is not None:
            place = (-1 if record.layer is None else record.layer, -1 if record.head is None else record.head)
            groups[*place, axis.fixed(record), part_of(record.layer, record.head)].append(record)
    estimators: tuple[tuple[str, Callable[[ConstantRecord], float | None]], ...] = (
        (OURS, lambda record: record.lipschitz.lower),
        (RELEASED, lambda record: record.released),
    )
    found = [
        _growth(part, fixed, name, [(r.sample, axis.size(r) or 0.0, value(r)) for r in some])
        for (_, _, fixed, part), some in groups.items()
        for name, value in estimators
    ]
    return tuple(growth for growth in found if growth.means)


def _growth(part: str, fixed: str, estimator: str, points: Sequence[tuple[int, float, float | None]]) -> Growth:
    values: defaultdict[float, list[float]] = defaultdict(list)
    for _, size, value in points:
        if value is not None and value > 0:
            values[size].append(value)
    means = {size: fmean(found) for size, found in sorted(values.items())}
    return Growth(part, fixed, estimator, means, power_law(points))


def _statement(records: Sequence[ConstantRecord]) -> Statement:
    lengths = sorted({record.tokens for record in records})
    span = f" at {lengths[0]} to {lengths[-1]} tokens" if len(lengths) > 1 else ""
    known = [record.lipschitz for record in records if record.lipschitz.upper is not None]
    unknown = len(records) - len(known)
    detail = f"{counted(len(records), 'local constant')}{span}."
    headline = Headline(Tone.MEASURED, "Sensitivity was measured; nothing was attacked", detail)
    if unknown:
        detail += f" Of these, {unknown} could not be computed."
        headline = Headline(Tone.UNKNOWN, "Not every constant could be computed", detail)
    return Statement(
        headline,
        (_promise(records),),
        words.joint_confidence([constant.failure_probability for constant in known], "limit"),
        "Anything about perturbations of a given size: a local constant speaks of infinitely small ones. "
        "task=certify gives a promise within a budget.",
    )


def _promise(records: Sequence[ConstantRecord]) -> str:
    whole = [record for record in records if record.head is None]
    layers = {layer: [r.lipschitz.upper for r in whole if r.layer == layer] for layer in {r.layer for r in whole}}
    limits = {layer: covering(values) for layer, values in layers.items()}
    amounts = [f"{at_most(limit)} in layer {layer}" for layer, limit in limits.items() if limit is not None]
    if not amounts:
        return "No finite upper limit was computed, so nothing is promised."
    missing = [layer for layer, limit in limits.items() if limit is None]
    except_for = f" Nothing is promised for layer {listed(missing)}." if missing else ""
    return (
        "At the tokens tested, an infinitely small change of the input grows by a factor of at most "
        f"{listed(amounts, 4)}.{except_for}"
    )


def _tiles(records: Sequence[ConstantRecord]) -> tuple[Tile, ...]:
    lengths = sorted({record.tokens for record in records})
    highest = at_least(largest(record.lipschitz.lower for record in records))
    most = Tile("Largest local constant", highest, "attained by an infinitely small change, over all records")
    several = Tile("Lengths", f"{lengths[0]}–{lengths[-1]}", f"tokens, {len(lengths)} lengths")
    return (most, several) if len(lengths) > 1 else (most,)


def _growth_table(growth: Sequence[Growth], axis: Axis) -> Table:
    sizes = sorted({size for line in growth for size in line.means})
    fitted: Fields[Growth] = (
        numbers("Exponent b", lambda line: line.law.exponent),
        texts("95 %", lambda line: line.law.interval and "{:.3f} to {:.3f}".format(*line.law.interval), optional=True),
    )
    fields: Fields[Growth] = (
        texts("Part", lambda line: line.part),
        texts("With", lambda line: line.fixed, optional=True),
        texts("Estimator", lambda line: line.estimator),
        *(_mean(size, axis.letter) for size in sizes),
        *(fitted if len(sizes) > 1 else ()),
    )
    note = (
        f"Mean over the samples. By the fitted power law the constant grows like the {axis.label} to the power b; the "
        "interval is over samples."
    )
    title = f"Mean local constant against the {axis.label}, by two estimators"
    return table_of(f"growth-{axis.key}", title, fields, growth, note=note, terminal=True)


def _mean(size: float, letter: str) -> Field[Growth]:
    return perhaps(f"{letter} = {plain(size)}", lambda line: line.means.get(size), lambda mean: plain(mean, 4))


def _panel(growth: Sequence[Growth], axis: Axis) -> Panel | None:
    """The mean constant of each whole layer, where there are several sizes; the released code's dashed."""
    whole = [line for line in growth if len(line.means) > 1 and "head" not in line.part]
    groups = list(dict.fromkeys(line.name for line in whole))
    drawn = [line for line in whole if line.name in groups[:LINES_DRAWN]]
    if not drawn:
        return None
    lines, looks = {}, {}
    for line in drawn:
        exponent = "" if line.law.exponent is None else f", exponent {plain(line.law.exponent, 2)}"
        name = f"{line.name}{'' if line.estimator == OURS else ', ' + RELEASED}{exponent}"
        lines[name] = tuple(line.means.items())
        looks[name] = Look(Role.SERIES if line.estimator == OURS else Role.REACHED, line.name)
    many = f" The first {LINES_DRAWN} of {len(groups)} are drawn." if len(groups) > LINES_DRAWN else ""
    caption = (
        f"How much a layer amplifies a tiny change, against the {axis.label}; mean over the samples. Dashed: what the "
        "code released with the paper computes. Both axes are logarithmic, so a power law is a straight line and its "
        f"exponent the slope.{many}"
    )
    return Panel(
        f"lipschitz_{axis.key}",
        f"Sensitivity against the {'length' if axis is TOKENS else axis.label}",
        axis.label,
        "mean local constant",
        lines,
        looks=looks,
        caption=caption,
    )


def _record_table(records: Sequence[ConstantRecord]) -> Table:
    head: Fields[ConstantRecord] = (counts("Head", lambda record: record.head),)
    fields: Fields[ConstantRecord] = (
        counts("Layer", lambda record: record.layer),
        *(head if any(record.head is not None for record in records) else ()),
        *sample_fields(records),
        counts("Tokens", lambda record: record.tokens),
        perhaps("Largest norm", lambda record: record.radius),
        constants("Local constant", lambda record: record.lipschitz),
        perhaps("Paper’s released code", lambda record: record.released, at_least),
    )
    note = "One line per layer, sample and length. The first value of a constant is attained, the second not exceeded."
    return table_of("constant-table", "Every record", fields, records, note=note)
