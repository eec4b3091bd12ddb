"""Which attacks of torchattacks 3.3 can be asked to push a layer's output far, and why the others cannot.

Plain data: torchattacks itself is imported only where one of them runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from robust_attn.types import UserError


class Ball(StrEnum):
    """The norm in which an attack keeps to its `eps`; EITHER takes the one that fits the budget better."""

    L2 = "L2"
    LINF = "Linf"
    EITHER = "either"


@dataclass(frozen=True)
class Suited:
    """What an attack has to be told beside eps, alpha and steps.

    `must_fool`: it returns only what was misclassified, so that every change has to count as such. All others would
    stop at a misclassification, so that for them no change does. `from_centre`: it starts at the tokens themselves,
    where a change has no gradient. `alpha` is its step as a part of eps where it takes one step only. `options` are
    further arguments of its constructor.
    """

    ball: Ball
    must_fool: bool = False
    from_centre: bool = False
    alpha: float | None = None
    options: Mapping[str, Any] = field(default_factory=dict)


CLASSES = 4
"""Logits of the stand-in classifier: unchanged, changed, and two that never change (APGDT's loss wants four)."""
RELATIVE_NOISE = 0.1
"""Noise of the attacks on smoothed classifiers, as a part of eps: their default is meant for images."""

SUITABLE: Mapping[str, Suited] = {
    "APGD": Suited(Ball.EITHER, must_fool=True),
    "APGDT": Suited(Ball.EITHER, must_fool=True, options={"n_classes": CLASSES}),
    "AutoAttack": Suited(Ball.EITHER, must_fool=True, options={"n_classes": CLASSES}),
    "BIM": Suited(Ball.LINF, from_centre=True),
    "EOTPGD": Suited(Ball.LINF),
    "FFGSM": Suited(Ball.LINF, alpha=1.25),
    "FGSM": Suited(Ball.LINF, from_centre=True),
    "GN": Suited(Ball.L2),
    "Jitter": Suited(Ball.LINF, options={"std": 0.1}),
    "MIFGSM": Suited(Ball.LINF, from_centre=True),
    "NIFGSM": Suited(Ball.LINF, from_centre=True),
    "OnePixel": Suited(Ball.L2),
    "PGD": Suited(Ball.LINF),
    "PGDL2": Suited(Ball.L2),
    "PGDRS": Suited(Ball.LINF),
    "PGDRSL2": Suited(Ball.L2),
    "RFGSM": Suited(Ball.LINF),
    "SINIFGSM": Suited(Ball.LINF, from_centre=True),
    "TPGD": Suited(Ball.LINF),
    "UPGD": Suited(Ball.LINF, from_centre=True),
    "VANILA": Suited(Ball.L2),
    "VMIFGSM": Suited(Ball.LINF, from_centre=True),
    "VNIFGSM": Suited(Ball.LINF, from_centre=True),
}

UNSUITABLE: Mapping[str, str] = {
    "CW": "it looks for the nearest point across a decision boundary and knows no radius, and a change has no boundary",
    "DeepFool": "it walks to the nearest decision boundary and stops there, and a change has no boundary",
    "DIFGSM": "it resizes and pads images at random, and the coordinates of tokens have no neighbours",
    "FAB": "it looks for the nearest point across a decision boundary, and a change has no boundary",
    "LGV": "it retrains the model on a data loader first, and a layer has no training data",
    "MultiAttack": "it only runs other attacks one after another, which a sweep over their names does as well",
    "Pixle": "it exchanges pixels of an image, and tokens whose coordinates change places leave any budget",
    "SparseFool": "it walks to the nearest decision boundary coordinate by coordinate, and a change has no boundary",
    "Square": "it stops at the first misclassification and returns nothing else, so it would be one random step",
    "TIFGSM": "it blurs gradients over neighbouring pixels, and the coordinates of tokens have no neighbours",
}


def checked_name(name: str) -> str:
    """The name of a suitable attack, or a UserError that says why it is none."""
    if name in SUITABLE:
        return name
    suitable = f"suitable are {', '.join(SUITABLE)}"
    if name in UNSUITABLE:
        raise UserError(f"{name} of torchattacks cannot attack a layer, because {UNSUITABLE[name]}; {suitable}.")
    raise UserError(f"torchattacks has no attack {name!r}; {suitable}.")
