"""Settings to tracker."""

from robust_attn.runs.tracking.settings import Wandb
from robust_attn.runs.tracking.tracker import NoTracker, Tracker
from robust_attn.settings import Settings


def make_tracker(asked: Settings) -> Tracker:
    """The tracker that the settings ask for; wandb is not imported before it starts."""
    if not isinstance(asked, Wandb) or asked.mode == "disabled":
        return NoTracker()
    from robust_attn.runs.tracking.wandb_tracker import WandbTracker

    return WandbTracker(mode=asked.mode, project=asked.project)
