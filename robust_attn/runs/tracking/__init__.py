"""Experiment trackers; wandb is imported in one file."""

from robust_attn.runs.tracking.tracker import Begun, NoTracker, Tracker, make_tracker

__all__ = ["Begun", "NoTracker", "Tracker", "make_tracker"]
