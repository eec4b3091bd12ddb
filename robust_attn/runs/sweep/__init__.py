"""Sweeps beyond what Hydra does: resuming, outcomes from other processes, a number for optimisers, threads."""
