"""Curved operations and the ellipsoids that contain their remainders of third order."""
