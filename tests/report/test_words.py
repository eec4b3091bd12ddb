import pytest

from robust_attn.report.rows import by_layer, rows_of
from robust_attn.report.words import Setting, confidence, headline, odds, promise

from .sample_runs import record, records

WASSERSTEIN = Setting("wasserstein", 0.01, "text")
NOTHING = {"bound": None, "output_change": None, "failure_probability": None}


def sentence(lines: list[dict], setting: Setting = WASSERSTEIN) -> str:
    rows = rows_of(lines)
    return promise(rows, by_layer(rows), setting)


def test_the_promise_names_inputs_perturbation_layer_and_amount() -> None:
    line = record(3, certified={"bound": "hull", "output_change": 0.3141, "failure_probability": 0})
    said = sentence([line | {"copies": 1}, line | {"copies": 1, "sample": 1}])
    assert said == (
        "For each of the 2 texts tested, any perturbation that moves its 32 tokens by at most 0.01 in root mean square "
        "changes the output of layer 3 by at most 0.315 (root mean square over the tokens)."
    )


def test_the_promise_does_not_reach_beyond_the_masses_of_the_attack() -> None:
    said = sentence([record(3) | {"copies": 2}])
    assert "the tokens split as in this attack (into up to 2 copies, with the masses that it gave them)" in said


def test_the_promise_says_which_layers_it_leaves_out() -> None:
    assert "Nothing is promised for layer 1." in sentence([record(0), record(1, certified=NOTHING)])


def test_a_broken_certificate_promises_nothing() -> None:
    lines = [record(0), record(1, verdict="VIOLATED")]
    assert sentence(lines).startswith("Nothing is promised")
    assert headline(rows_of(lines)).tone == "violated"


@pytest.mark.parametrize(
    ("lines", "tone"),
    [
        ([], "unknown"),
        ([record()], "holds"),
        ([record(attack="none")], "holds"),
        ([record(), record(1, verdict="VACUOUS")], "vacuous"),
        ([record(), record(1, verdict="VACUOUS"), record(2, certified=NOTHING)], "unknown"),
    ],
)
def test_the_headline_follows_the_worst_verdict(lines: list[dict], tone: str) -> None:
    assert headline(rows_of(lines)).tone == tone


def test_failure_probabilities_add_up_over_the_promises() -> None:
    assert "at most 1 in 41 million" in confidence(rows_of(records(6, 4)))


def test_confidence_is_not_claimed_where_it_is_not_recorded() -> None:
    unknown = {"bound": "a", "output_change": 1.0, "failure_probability": None}
    assert "no confidence can be stated" in confidence(rows_of([record(), record(1, certified=unknown)]))
    certain = {"bound": "a", "output_change": 1.0, "failure_probability": 0}
    assert "deterministic" in confidence(rows_of([record(certified=certain)]))


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (1e-18, "10¹⁵"),
        (4.9e-8, "20 million"),
        (0.03, "1 in 33"),
        (0.251, "26 in 100"),
        (1e-3, "1 thousand"),
        (1e-9, "1 billion"),
    ],
)
def test_odds_are_never_smaller_than_the_probability(probability: float, words: str) -> None:
    assert words in odds(probability)


@pytest.mark.parametrize("kind", ["wasserstein", "frobenius", "per_token", "something new"])
def test_every_budget_has_words(kind: str) -> None:
    assert "0.01" in sentence(records(2, 2), Setting(kind, 0.01, "text"))
