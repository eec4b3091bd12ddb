"""Experiment trackers; wandb is imported in one file."""

from robust_attn.tracking.choice import make_tracker
from robust_attn.tracking.tracker import NoTracker, Tracker

__all__ = ["NoTracker", "Tracker", "make_tracker"]
