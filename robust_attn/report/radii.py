"""Certified and observed output change against the size of the perturbation, where a run holds several sizes."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from robust_attn.report.chart import INK, SERIES, Chart, Tips, canvas, curve, house_style, log_axis
from robust_attn.report.numerals import at_least, at_most, integer_at, number_at, plain

LAYERS_DRAWN = 8


@dataclass(frozen=True)
class AgainstRadius:
    """One layer: by radius the promise that covers its samples, and the largest change that an attack reached."""

    layer: int
    certified: dict[float, float]
    observed: dict[float, float]


def against_radius(records: Iterable[Mapping[str, Any]]) -> tuple[AgainstRadius, ...]:
    """Layers some sample of which was examined at several radii; those samples alone, and whole layers alone."""
    samples: defaultdict[tuple[int, object, object], list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        layer, radius = integer_at(dict(record), "layer"), number_at(dict(record), "budget.radius")
        if layer is not None and radius is not None and radius > 0 and record.get("head") is None:
            samples[layer, record.get("sample"), record.get("tokens")].append(dict(record))
    groups: defaultdict[int, list[dict[str, Any]]] = defaultdict(list)
    for (layer, _, _), found in samples.items():
        if len({number_at(record, "budget.radius") for record in found}) > 1:
            groups[layer] += found
    return tuple(_line(layer, groups[layer]) for layer in sorted(groups))


def _line(layer: int, records: Sequence[dict[str, Any]]) -> AgainstRadius:
    certified: defaultdict[float, list[float | None]] = defaultdict(list)
    observed: defaultdict[float, list[float]] = defaultdict(list)
    for record in records:
        radius = number_at(record, "budget.radius") or 0.0
        certified[radius].append(number_at(record, "certified.output_change"))
        reached = number_at(record, "observed.output_change")
        if reached is not None and reached > 0:
            observed[radius].append(reached)
    known = {radius: [one for one in values if one] for radius, values in sorted(certified.items())}
    return AgainstRadius(
        layer,
        {radius: max(values) for radius, values in known.items() if len(values) == len(certified[radius])},
        {radius: max(values) for radius, values in sorted(observed.items())},
    )


def radius_chart(lines: Sequence[AgainstRadius]) -> Chart | None:
    """Both against the radius, on logarithmic axes; nothing where no layer has two radii with a number."""
    known = [line for line in lines if len({*line.certified, *line.observed}) > 1]
    if not known:
        return None
    drawn = known[:LAYERS_DRAWN]
    with house_style():
        figure, axes = canvas(height=4.0)
        tips = Tips()
        for colour, line in zip(SERIES, drawn, strict=False):
            for name, values in (("certified", line.certified), ("observed", line.observed)):
                label = f"layer {line.layer}, {name}"
                curve(axes, list(values.items()), tips, label=label, colour=colour, dashed=name == "observed")
        log_axis(axes, "x", at={radius for line in drawn for radius in (*line.certified, *line.observed)})
        log_axis(axes, "y")
        axes.set(xlabel="size of the perturbation (radius of the budget)", ylabel="change of the output")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK, fontsize=8)
    many = f" The first {len(drawn)} of {len(known)} layers are drawn." if len(known) > len(drawn) else ""
    attacked = " Dashed: the furthest that an attack moved it." if any(line.observed for line in drawn) else ""
    caption = (
        f"Solid: the output moves no further, whatever a perturbation of that size does.{attacked} The samples that "
        f"were examined at several sizes, the largest of them. Both axes are logarithmic.{many}"
    )
    return Chart("radii", "Output change against the size of the perturbation", caption, _words(drawn), figure, tips)


def _words(lines: Sequence[AgainstRadius]) -> str:
    def values(line: AgainstRadius) -> str:
        promised = [f"at most {at_most(change)} at {plain(radius)}" for radius, change in line.certified.items()]
        reached = [f"reached {at_least(change)} at {plain(radius)}" for radius, change in line.observed.items()]
        return ", ".join([*promised, *reached])

    return "; ".join(f"layer {line.layer}: {values(line)}" for line in lines)
