"""robust_attn: attacks on and certificates for the attention layers of transformers.

Names are loaded when they are first used, so that `import robust_attn` costs nothing; type checkers and editors see
where each comes from.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from robust_attn.attacks.as_torchattacks import MassSplitAttack as MassSplitAttack
    from robust_attn.attacks.as_torchattacks import MoveAttack as MoveAttack
    from robust_attn.attacks.attack import AttackResult as AttackResult
    from robust_attn.attacks.baseline import NoAttack as NoAttack
    from robust_attn.attacks.baseline import RandomMove as RandomMove
    from robust_attn.attacks.mass_split import Masses as Masses
    from robust_attn.attacks.mass_split import MassSplit as MassSplit
    from robust_attn.attacks.move import Linear as Linear
    from robust_attn.attacks.move import Move as Move
    from robust_attn.attacks.torchattacks_bridge import Torchattack as Torchattack
    from robust_attn.attacks.worst_case import WorstCaseSearch as WorstCaseSearch
    from robust_attn.attention.extras import PositionBias as PositionBias
    from robust_attn.attention.extras import Sinks as Sinks
    from robust_attn.attention.head_norm import HeadNorm as HeadNorm
    from robust_attn.attention.layer import AttentionLayer as AttentionLayer
    from robust_attn.attention.mask import Mask as Mask
    from robust_attn.attention.mask import Window as Window
    from robust_attn.attention.measure import TokenMeasure as TokenMeasure
    from robust_attn.attention.rotary import Rotary as Rotary
    from robust_attn.attention.rotary import RotaryTable as RotaryTable
    from robust_attn.bounds.bound import Bound as Bound
    from robust_attn.budget import Frobenius as Frobenius
    from robust_attn.budget import PerToken as PerToken
    from robust_attn.budget import TokenRadius as TokenRadius
    from robust_attn.budget import Wasserstein as Wasserstein
    from robust_attn.certificates.followed import Following as Following
    from robust_attn.certificates.layer import Certificate as Certificate
    from robust_attn.certificates.layer import certify as certify
    from robust_attn.certificates.measures import certify_measures as certify_measures
    from robust_attn.certificates.radius import CertifiedRadius as CertifiedRadius
    from robust_attn.certificates.radius import certified_radius as certified_radius
    from robust_attn.models import AttentionModel as AttentionModel
    from robust_attn.models import from_multihead_attention as from_multihead_attention
    from robust_attn.models import load_model as load_model
    from robust_attn.models import wrap as wrap
    from robust_attn.observation import Observation as Observation
    from robust_attn.observation import observe as observe
    from robust_attn.pipeline.motion import token_motion as token_motion
    from robust_attn.pipeline.one_text import CertifiedPrediction as CertifiedPrediction
    from robust_attn.pipeline.one_text import FlipRadius as FlipRadius
    from robust_attn.pipeline.one_text import certified_prediction as certified_prediction
    from robust_attn.pipeline.one_text import flip_radius as flip_radius
    from robust_attn.records.frames import load_runs as load_runs
    from robust_attn.records.frames import run_rows as run_rows
    from robust_attn.report.many import run_figures as run_figures
    from robust_attn.spectral.lanczos import LipschitzEstimate as LipschitzEstimate
    from robust_attn.spectral.lanczos import largest_singular_value as largest_singular_value
    from robust_attn.spectral.lipschitz import head_lipschitz as head_lipschitz
    from robust_attn.spectral.lipschitz import local_lipschitz as local_lipschitz
    from robust_attn.spectral.lipschitz import split_lipschitz as split_lipschitz
    from robust_attn.spectral.norms import head_norms as head_norms
    from robust_attn.spectral.pairs import pair_norms as pair_norms
    from robust_attn.spectral.triplets import as_linear_operator as as_linear_operator
    from robust_attn.spectral.triplets import svds as svds
    from robust_attn.types import UserError as UserError
    from robust_attn.types import Verdict as Verdict

__version__ = "0.1.0"

_HOMES = {
    "AttentionLayer": "attention.layer",
    "TokenMeasure": "attention.measure",
    "Mask": "attention.mask",
    "Window": "attention.mask",
    "Rotary": "attention.rotary",
    "RotaryTable": "attention.rotary",
    "PositionBias": "attention.extras",
    "Sinks": "attention.extras",
    "HeadNorm": "attention.head_norm",
    "Wasserstein": "budget",
    "Frobenius": "budget",
    "PerToken": "budget",
    "Move": "attacks.move",
    "Linear": "attacks.move",
    "MassSplit": "attacks.mass_split",
    "Torchattack": "attacks.torchattacks_bridge",
    "MoveAttack": "attacks.as_torchattacks",
    "MassSplitAttack": "attacks.as_torchattacks",
    "RandomMove": "attacks.baseline",
    "NoAttack": "attacks.baseline",
    "WorstCaseSearch": "attacks.worst_case",
    "observe": "observation",
    "Certificate": "certificates.layer",
    "Following": "certificates.followed",
    "certify": "certificates.layer",
    "certify_measures": "certificates.measures",
    "CertifiedRadius": "certificates.radius",
    "certified_radius": "certificates.radius",
    "flip_radius": "pipeline.one_text",
    "FlipRadius": "pipeline.one_text",
    "certified_prediction": "pipeline.one_text",
    "CertifiedPrediction": "pipeline.one_text",
    "local_lipschitz": "spectral.lipschitz",
    "split_lipschitz": "spectral.lipschitz",
    "largest_singular_value": "spectral.lanczos",
    "head_norms": "spectral.norms",
    "load_model": "models",
    "wrap": "models",
    "from_multihead_attention": "models",
    "load_runs": "records.frames",
    "run_rows": "records.frames",
    "run_figures": "report.many",
    "UserError": "types",
    "Verdict": "types",
    "Masses": "attacks.mass_split",
    "TokenRadius": "budget",
    "token_motion": "pipeline.motion",
    "head_lipschitz": "spectral.lipschitz",
    "pair_norms": "spectral.pairs",
    "svds": "spectral.triplets",
    "as_linear_operator": "spectral.triplets",
    "AttackResult": "attacks.attack",
    "Observation": "observation",
    "Bound": "bounds.bound",
    "LipschitzEstimate": "spectral.lanczos",
    "AttentionModel": "models",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'robust_attn' has no attribute {name!r}")
    return getattr(importlib.import_module(f"robust_attn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
