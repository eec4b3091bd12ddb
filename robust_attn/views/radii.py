"""Certified and observed output change against the size of the perturbation, where a run holds several sizes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from robust_attn.records.kinds import Check
from robust_attn.views.panel import Look, Panel, Point, Role, positive_line
from robust_attn.views.words import covering, largest

LAYERS_DRAWN = 8


def radii_panel(checks: Iterable[Check]) -> Panel | None:
    """Both against the radius, of layers some sample of which was examined at several; those samples alone."""
    groups = _several_radii(checks)
    lines: dict[str, tuple[Point, ...]] = {}
    looks: dict[str, Look] = {}
    for layer in sorted(groups)[:LAYERS_DRAWN]:
        radii = sorted({check.budget.radius or 0.0 for check in groups[layer]})
        found = [(radius, [check for check in groups[layer] if check.budget.radius == radius]) for radius in radii]
        # The promise that covers every sample at each radius, where there is one, and the furthest that was reached.
        certified = positive_line((r, covering(check.certified.output_change for check in some)) for r, some in found)
        observed = positive_line((r, largest(check.observed.output_change for check in some)) for r, some in found)
        for name, role, points in (("certified", Role.PROMISED, certified), ("observed", Role.REACHED, observed)):
            if points:
                lines[f"layer {layer}, {name}"] = points
                looks[f"layer {layer}, {name}"] = Look(role, f"layer {layer}")
    if len({x for points in lines.values() for x, _ in points}) < 2:
        return None
    many = f" The first {LAYERS_DRAWN} of {len(groups)} layers are drawn." if len(groups) > LAYERS_DRAWN else ""
    reached = any(look.role is Role.REACHED for look in looks.values())
    caption = (
        "Solid: the output moves no further, whatever a covered perturbation of that size does."
        f"{' Dashed: the furthest that an attack moved it.' if reached else ''} The samples that were examined at "
        f"several sizes, the largest of them. Both axes are logarithmic.{many}"
    )
    return Panel(
        "radii",
        "Output change against the size of the perturbation",
        "radius of the budget",
        "change of the output",
        lines,
        looks=looks,
        caption=caption,
    )


def _several_radii(checks: Iterable[Check]) -> dict[int, list[Check]]:
    samples: defaultdict[tuple[int, int, int], list[Check]] = defaultdict(list)
    for check in checks:
        if check.layer is not None and check.head is None and (check.budget.radius or 0.0) > 0:
            samples[check.layer, check.sample, check.tokens].append(check)
    groups: defaultdict[int, list[Check]] = defaultdict(list)
    for (layer, _, _), found in samples.items():
        if len({check.budget.radius for check in found}) > 1:
            groups[layer] += found
    return dict(groups)
