"""Largest singular values: lower estimates and upper values, never confused."""
