"""Sweeps beyond what Hydra does: every job done once, outcomes from other processes, a number for optimisers."""
