import pytest

from robust_attn.tasks.adversarial import AdversarialTask

STUDY = AdversarialTask(radius=2.5, lengths=(4, 16, 64))


@pytest.fixture(scope="module")
def records():
    return list(STUDY.measured(seed=0))


def test_every_configuration_grows_like_the_square_root(records):
    """Far below the crossover e^{2 gamma R^2} = e^{12.5}."""
    exponents = STUDY.findings(records)["exponents"]
    assert set(exponents) == {"paper, mask none", "one_key, mask none", "two_key, mask none", "paper, mask causal"}
    for name in ("paper, mask none", "one_key, mask none", "paper, mask causal"):
        assert exponents[name] == pytest.approx(0.5, abs=0.06)
    assert 0.45 < exponents["two_key, mask none"] < 0.65


def test_nothing_is_violated_and_lower_bounds_are_beside(records):
    assert {record.verdict for record in records} == {"HOLDS"}
    (panel,) = STUDY.panels(records)
    assert {"paper", "one_key", "two_key", "paper, causal"} <= set(panel.lines)
    assert {"paper.discrete_lower", "sharp.one_key_lower", "sharp.two_key_lower", "sharp.unified"} <= panel.dashed
    assert all(len(panel.lines[name]) == 3 for name in panel.dashed)


def test_two_keys_beat_one_by_a_factor_of_the_order_of_r_squared(records):
    last = {r.configuration: r.lipschitz.lower for r in records if r.tokens == 64 and r.mask == "none"}
    assert last["two_key"] > 4 * last["one_key"]
