from robust_attn.through.findings import flip_findings
from robust_attn.through.records import LAYERS, PREDICTION


def prediction(flipped: bool, radius: float | None, moving: float | None) -> dict[str, object]:
    return {
        "task": PREDICTION,
        "prediction": {"flipped": flipped},
        "flip_radius": radius,
        "flip_radius_moving": moving,
    }


def test_counts_radii_and_tightness_by_hand():
    records = [
        prediction(True, 0.1, 0.4),
        prediction(False, 0.3, None),
        prediction(False, None, None),
        {"task": LAYERS, "tightness": 0.25},
        {"task": LAYERS, "tightness": None},
    ]
    assert flip_findings(records) == {
        "samples": 3,
        "flipped_within_budget": 1,
        "flipped_at_some_radius": 2,
        "smallest_flip_radius": 0.1,
        "smallest_flip_radius_moving": 0.4,
        "median_flip_radius": 0.2,
        "median_flip_radius_moving": 0.4,
        "largest_tightness": 0.25,
    }


def test_a_run_that_stopped_early_has_no_radii():
    assert flip_findings([])["smallest_flip_radius"] is None
