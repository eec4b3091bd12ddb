"""The table of everything that promises something, and how each is attacked."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from robust_attn.soundness import constants, promises, recorded, sizes, whole
from robust_attn.soundness.case import RADII, RECORDS, Case
from robust_attn.soundness.comparison import Checked

FUNCTIONS: Mapping[str, Callable[[Case], Checked]] = {
    "certify": promises.certify_checked,
    "certify_measures": promises.measures_checked,
    "certified_radius": promises.radius_checked,
    "local_lipschitz": constants.local_checked,
    "split_lipschitz": constants.split_checked,
    "largest_singular_value": constants.singular_checked,
    "head_norms": sizes.norms_checked,
    "observe": sizes.observe_checked,
    RECORDS: recorded.records_checked,
    RADII: promises.radius_checked,
    "head_lipschitz": constants.heads_checked,
    "through_model": whole.through_checked,
    "repeat_tokens": whole.repeat_checked,
}
"""Every public function that returns a certificate, or an upper value of anything, and what else makes certificates."""
NO_PROMISE = frozenset(
    {
        *("AttentionLayer", "TokenMeasure", "Mask", "Rotary", "Wasserstein", "Frobenius", "PerToken"),
        *("Move", "Linear", "MassSplit", "Torchattack", "MoveAttack", "MassSplitAttack", "RandomMove", "NoAttack"),
        *("WorstCaseSearch", "Certificate", "CertifiedRadius", "UserError", "Verdict"),
        *("AttackResult", "AttentionModel", "Bound", "LipschitzEstimate", "Masses", "Observation", "TokenRadius"),
        *("as_linear_operator", "load_model", "load_runs", "pair_norms", "run_figures", "run_rows", "svds"),
        "token_motion",
    }
)
"""The other public names: what is certified, what attacks it, what the results are called, models and files."""


def check(case: Case) -> Checked:
    """Attack and compare. What fails on the way is a reason to know nothing, never a reason to call it sound."""
    try:
        return FUNCTIONS[case.called](case)
    except Exception as error:
        return Checked((), (f"{type(error).__name__}: {' '.join(str(error).split())[:200]}",))
