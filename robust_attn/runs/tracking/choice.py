"""Settings to tracker."""

from robust_attn.runs.tracking.settings import MODES
from robust_attn.runs.tracking.tracker import NoTracker, Tracker
from robust_attn.types import UserError

KINDS = ("wandb", "none")


def make_tracker(kind: str, mode: str, project: str) -> Tracker:
    """The tracker that the settings ask for; wandb is not imported before it starts."""
    if kind not in KINDS:
        raise UserError(f"tracker is {kind!r}, expected one of {', '.join(KINDS)}.")
    if mode not in MODES:
        raise UserError(f"tracker.mode is {mode!r}, expected one of {', '.join(MODES)}.")
    if kind == "none" or mode == "disabled":
        return NoTracker()
    from robust_attn.runs.tracking.wandb_tracker import WandbTracker

    return WandbTracker(mode=mode, project=project)
