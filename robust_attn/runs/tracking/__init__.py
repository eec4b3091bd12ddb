"""Experiment trackers; wandb is imported in one file."""

from robust_attn.runs.tracking.choice import make_tracker
from robust_attn.runs.tracking.tracker import NoTracker, Tracker

__all__ = ["NoTracker", "Tracker", "make_tracker"]
