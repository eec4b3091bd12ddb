"""Attacks propose a perturbed measure; observation.py projects, checks and measures."""
