"""Records of schema 1, as they were written before kinds had names, brought into today's form.

A record of schema 1 that belongs to no experiment does not say whether it is of an attack or of a certificate: the run
that wrote it does, so its task is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from robust_attn.records.entry import Json

STUDIES = ("adversarial", "radius", "mean_field", "unbalanced", "adversarial_layer")
_KIND_OF_TASK = {
    "through_model": "layer",
    "prediction": "prediction",
    "repeat_tokens": "repeat",
    "repeat_tokens_layers": "repeat_layer",
    **dict.fromkeys(STUDIES, "study"),
}


def upgraded(values: Mapping[str, Any], task: str | None) -> Json:
    """The same record in the form of schema 2; one that is of it already stays as it is. `task` is that of the run."""
    if values.get("schema") != 1:
        return dict(values)
    named = values.get("task")
    kind = _KIND_OF_TASK.get(str(named), str(named)) if named is not None else task
    fields = {name: value for name, value in values.items() if name != "task"} | {"schema": 2, "kind": kind}
    if named in STUDIES:
        return fields | {"study": named}
    if kind == "mass_splitting":
        return _splitting(fields)
    if kind == "prediction":
        return _prediction(fields)
    return fields | {"kind": "campaign"} if kind == "soundness" and "carried" in values else fields


def _splitting(fields: Json) -> Json:
    """One series of that study were attacks; the two others have a kind of their own."""
    if fields.get("series") == "copies":
        return fields | {"kind": "attack"}
    constant = fields.get("lipschitz") or {}
    return fields | {"kind": "splitting", "split": fields.get("split", constant.get("lower"))}


def _prediction(fields: Json) -> Json:
    """Margins had the opposite sign, and there was a radius for the attack and one for moving alone."""
    before, margin = fields.get("prediction") or {}, fields.get("margin") or {}
    moving, found = fields.get("flip_radius_moving"), fields.get("flip_radius")
    split = fields.get("attack") == "mass_split"
    radii = {"move": moving, "split": found} if split else {str(fields.get("attack")): found}
    return fields | {
        "predicted": before.get("clean"),
        "margin": _negated(margin.get("clean")),
        "attacked": {
            "predicted": before.get("perturbed"),
            "margin": _negated(margin.get("perturbed")),
            "flipped": before.get("flipped"),
        },
        "flip_radius": radii,
        "flip": {
            "accuracy": fields.get("flip_accuracy"),
            "radii_tried": fields.get("radii_tried", 0),
            "smallest_mass": fields.get("flip_smallest_mass"),
        },
        "certified_radius": {},
    }


def _negated(value: Any) -> Any:
    return -value if isinstance(value, int | float) else value
