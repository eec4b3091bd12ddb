import pytest

from robust_attn.build import STUDIES
from robust_attn.experiments.outcome import ExperimentOutcome, outcome_of


@pytest.mark.parametrize("name", ["lipschitz", "tightness", "adversarial_layer", *sorted(STUDIES)])
def test_a_run_that_stopped_before_its_first_record_has_an_empty_outcome(name):
    assert outcome_of({"name": name, "radii": []}, []) == ExperimentOutcome()


def test_tasks_without_figures_have_an_empty_outcome():
    assert outcome_of({"name": "attack"}, [{"verdict": "HOLDS"}]) == ExperimentOutcome()


def test_the_lipschitz_task_has_exponents_by_hand():
    """Constants n^(1/2) and released 1 at n = 4 and 16, two windows each: exponents 1/2 and 0."""
    about = {"task": "lipschitz", "model": "toy", "weights": "random:0", "layer": 0, "head": None, "mask": "none"}
    records = [
        {**about, "sample": window, "tokens": n, "scaled_to": None, "lipschitz": {"lower": n**0.5}, "released": 1.0}
        for n in (4, 16)
        for window in (0, 1)
    ]
    (entry,) = outcome_of({"name": "lipschitz", "radii": []}, records).exponents
    assert entry["exponent"] == pytest.approx(0.5)
    assert entry["released_exponent"] == pytest.approx(0.0)
