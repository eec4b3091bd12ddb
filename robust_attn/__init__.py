"""robust_attn: attacks on and certificates for the attention layers of transformers.

Names are loaded when they are first used, so that `import robust_attn` costs nothing.
"""

from __future__ import annotations

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "AttentionLayer": "attention.layer",
    "TokenMeasure": "attention.measure",
    "Mask": "attention.mask",
    "Rotary": "attention.rotary",
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
    "Certificate": "certificate",
    "certify": "certificate",
    "certify_measures": "certificate",
    "CertifiedRadius": "radius_search",
    "certified_radius": "radius_search",
    "local_lipschitz": "spectral.lipschitz",
    "split_lipschitz": "spectral.lipschitz",
    "largest_singular_value": "spectral.lanczos",
    "head_norms": "spectral.norms",
    "load_model": "models",
    "load_runs": "frames",
    "run_rows": "frames",
    "run_figures": "report.plots",
    "UserError": "types",
    "Verdict": "types",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'robust_attn' has no attribute {name!r}")
    return getattr(importlib.import_module(f"robust_attn.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
