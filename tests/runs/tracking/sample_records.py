"""Records small enough to read, as the pipeline hands them to a tracker."""

from typing import Any


def record(layer: int = 0, gain: float | None = 2.5) -> dict[str, Any]:
    return {
        "schema": 1,
        "model": "toy",
        "layer": layer,
        "sample": 0,
        "attack": "move",
        "budget": {"kind": "wasserstein", "radius": 0.01},
        "observed": {"gain": gain, "output_change": 0.025},
        "bounds": [
            {"name": "paper.discrete", "log10": 3.0, "applies": True},
            {"name": "paper.masked", "log10": 1.0, "applies": False},
            {"name": "odd", "log10": None},
        ],
        "certified": {"bound": "hull", "output_change": 0.03, "failure_probability": 1e-9},
        "tightness": 0.83,
        "verdict": "HOLDS",
        "convergence": [0.01, 0.02, None, 0.025],
        "text": "some text",
    }
