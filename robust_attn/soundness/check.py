"""The table of everything that promises something, and how each is attacked; a violation as small as it gets."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from robust_attn.soundness import constants, promises, recorded
from robust_attn.soundness.case import RADII, RECORDS, Case, case_from
from robust_attn.soundness.comparison import Checked, Comparison
from robust_attn.soundness.predictions import WholeCase
from robust_attn.types import UserError

Check = Callable[[Case], Checked]
FUNCTIONS: Mapping[str, Check] = {
    "certify": promises.certify_checked,
    "certify_measures": promises.measures_checked,
    "certified_radius": promises.radius_checked,
    "local_lipschitz": constants.local_checked,
    "split_lipschitz": constants.split_checked,
    "largest_singular_value": constants.singular_checked,
    "head_norms": constants.norms_checked,
    "observe": constants.observe_checked,
    RECORDS: recorded.records_checked,
    RADII: promises.radius_checked,
    "head_lipschitz": constants.heads_checked,
    "through_model": recorded.through_checked,
    "repeat_tokens": recorded.repeat_checked,
}
"""Every public function that returns a certificate, or an upper value of anything, and what else makes certificates."""
NO_PROMISE = frozenset(
    {
        *("AttentionLayer", "TokenMeasure", "Mask", "Rotary", "Wasserstein", "Frobenius", "PerToken"),
        *("Move", "Linear", "MassSplit", "Torchattack", "MoveAttack", "MassSplitAttack", "RandomMove", "NoAttack"),
        *("WorstCaseSearch", "Certificate", "CertifiedRadius", "UserError", "Verdict"),
        *("AttackResult", "AttentionModel", "Bound", "LipschitzEstimate", "Masses", "Observation", "TokenRadius"),
        *("as_linear_operator", "load_model", "load_runs", "pair_norms", "run_figures", "run_rows", "svds"),
        *("token_motion", "wrap", "from_multihead_attention", "Window", "RotaryTable", "PositionBias", "Sinks"),
        *("HeadNorm", "Following", "flip_radius", "FlipRadius", "CertifiedPrediction"),
    }
)
"""The other public names: what is certified, what attacks it, what the results are called, models and files."""
WHOLE_MODELS = frozenset({"certified_prediction"})
"""These are attacked on whole models that have seeds of their own (`predictions.py`)."""
TRIES = 150
"""Cases tried at most on the way to a smaller one."""
PLAIN = (
    "mask",
    "rotary",
    "added",
    "norm",
    "weights",
    "bias_size",
    "masses",
    "points",
    "stored",
    "support",
    "scale",
    "deterministic",
)
"""Fields that are tried at their simplest."""


def check(case: Case) -> Checked:
    """Attack and compare. What fails on the way is a reason to know nothing, never a reason to call it sound."""
    try:
        return FUNCTIONS[case.called](case)
    except Exception as error:
        return Checked((), (f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",))


def shrunk(case: Case, violation: Comparison, *, check: Check = check) -> tuple[Case, Comparison]:
    """The simplest case found that exceeds the same bound, and by how much it does.

    Of the simpler cases the first that is still a violation is taken, and all are tried again from there.
    """
    tries = 0
    smaller = True
    while smaller and tries < TRIES:
        smaller = False
        for simpler in _simpler(case, violation.sample):
            tries += 1
            found = [item for item in check(simpler).violations if item.bound == violation.bound]
            if found:
                case, violation, smaller = simpler, max(found, key=lambda item: item.approach), True
                break
            if tries >= TRIES:
                break
    return case, violation


def reproducer(case: Case | WholeCase, violation: Comparison, *, drawn_from: Case | WholeCase) -> dict[str, Any]:
    """What is saved: the case as plain values, which is all that a replay needs, and what it showed."""
    import torch

    return {
        "schema": 1,
        "case": case.plain(),
        "bound": violation.bound,
        "sample": violation.sample,
        "observed": violation.observed,
        "rounding": violation.rounding,
        "allowed": violation.allowed,
        "drawn_from": drawn_from.plain(),
        "torch": torch.__version__,
        "replay": "python -m robust_attn task=soundness task.replay=THIS_FILE",
    }


def saved_case(path: Path) -> Case | WholeCase:
    """The case of a reproducer, or the whole model; a UserError if the file is none."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        case = values["case"]
        return WholeCase(int(case["model_seed"])) if "model_seed" in case else case_from(case)
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path} is no reproducer of the soundness campaign: {type(error).__name__}.") from error


def _simpler(case: Case, sample: int) -> Iterator[Case]:
    """Cases with one thing less, the largest steps first; each differs from the case itself."""
    one_thing: list[dict[str, Any]] = [{"samples": (sample,)}]
    for name, least in (("tokens", 1), ("width", 1), ("groups", 1), ("sharing", 1), ("out", 1), ("head_width", 2)):
        now = getattr(case, name)
        one_thing += [{name: value} for value in sorted({least, _half(now, least), now - least}) if value >= least]
    plain = Case(case.seed)
    for name in PLAIN:
        one_thing.append({name: getattr(plain, name)})
    one_thing += [{"attack": attack} for attack in ("linear", "move") if case.attack != "linear"]
    for name in ("token_size", "value_size", "logit_size", "radius", "support_times", "cancelling_size", "distance"):
        one_thing += [{name: 1.0}, {name: _power(getattr(case, name))}]
    return (simpler for simpler in dict.fromkeys(replace(case, **less) for less in one_thing) if simpler != case)


def _half(value: int, least: int) -> int:
    return max(least, value // 2 // least * least)


def _power(value: float) -> float:
    """The nearest power of ten; zero and what is beyond all floats stay."""
    if not (math.isfinite(value) and value > 0):
        return value
    return float(f"1e{round(math.log10(value))}")
