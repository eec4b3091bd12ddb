"""Everything about a run on disk and on screen while it goes on: its folder, sweeps, progress, trackers."""
