"""Experiment trackers; wandb is imported in one file."""

from robust_attn.runs.tracking.tracker import NoTracker, Tracker, make_tracker

__all__ = ["NoTracker", "Tracker", "make_tracker"]
