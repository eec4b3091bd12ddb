"""Attacks through whole classifiers, with every attention layer watched on the way."""
