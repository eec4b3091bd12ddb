"""Certificates: what is promised of a layer, up to which radius, and against which perturbations."""
