"""Certified radius of a whole classifier's prediction, and baselines beside it."""
