"""Attacks propose a perturbed measure; observe.py projects, checks and measures."""
