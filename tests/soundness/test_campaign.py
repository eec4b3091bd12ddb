import pytest

from robust_attn.records.store import line_of
from robust_attn.soundness import campaign as module
from robust_attn.soundness.campaign import SHRUNK_PER_BOUND, Campaign, case_record, continued
from robust_attn.soundness.case import Case
from robust_attn.soundness.comparison import Checked, Comparison
from robust_attn.types import UserError, Verdict
from tests.records.samples import attack_record

GOOD, BAD = Comparison("a", 0, 0.5, 0.0, 1.0), Comparison("a", 0, 2.0, 0.0, 1.0)


@pytest.fixture
def checked(monkeypatch):
    """Seeds divisible by three violate a bound; nothing is computed."""
    monkeypatch.setattr(module, "check", lambda case: Checked((BAD if case.seed % 3 == 0 else GOOD,)))
    monkeypatch.setattr(module, "shrunk", lambda case, violation: (Case(case.seed), violation))


@pytest.mark.usefixtures("checked")
def test_every_case_has_a_record_and_every_violation_is_saved_before_it():
    saved = {}
    verdicts = []
    for record in Campaign(4, None, 5).records(saved.__setitem__):
        assert (f"seed-{record.seed}-a.json" in saved) == (record.seed % 3 == 0)
        verdicts.append((record.seed, record.verdict))
    assert verdicts == [(5, Verdict.HOLDS), (6, Verdict.VIOLATED), (7, Verdict.HOLDS), (8, Verdict.HOLDS)]
    assert saved["seed-6-a.json"]["case"] == Case(6).plain()


@pytest.mark.usefixtures("checked")
def test_only_the_first_violations_of_a_bound_are_made_smaller():
    saved = {}
    list(Campaign(3 * (SHRUNK_PER_BOUND + 1), None, 0).records(saved.__setitem__))
    small = [found["case"] != found["drawn_from"] for found in saved.values()]
    assert small == [True] * SHRUNK_PER_BOUND + [False]


@pytest.mark.usefixtures("checked")
def test_the_time_is_over_between_two_cases():
    now = iter(range(0, 10_000, 30))
    seeds = [record.seed for record in Campaign(None, 3.0, 0).records(lambda *_: None, clock=lambda: next(now))]
    assert seeds == [0, 1]  # three looks at the clock per case, thirty seconds each


@pytest.mark.parametrize(
    "right",
    [
        {"token_size": 1e100},
        {"weights": "cancelling_values", "cancelling_size": 1e8},
        {"points": "shifted", "distance": 1e3},
        {"logit_size": 1e5, "radius": 1e-6},
    ],
)
def test_unknown_is_expected_where_rounding_leaves_nothing_else(right):
    nothing = Checked((), ("not finite",))
    assert case_record(Case(0, **right), nothing, seconds=0.0).expected
    assert not case_record(Case(0), nothing, seconds=0.0).expected
    assert case_record(Case(0), nothing, seconds=0.0).verdict is Verdict.UNKNOWN


def test_to_go_on_is_to_begin_after_the_last_seed(tmp_path):
    records = [case_record(Case(seed), Checked((GOOD,)), seconds=1.0) for seed in (10, 11)]
    text = "".join(map(line_of, records))
    (tmp_path / "records.jsonl").write_text(text + line_of(case_record(Case(12), Checked((GOOD,)), seconds=1.0))[:60])
    found = continued(tmp_path)
    assert found.continues == tmp_path.name
    assert (found.carried.cases, found.carried.last_seed) == (2, 11)


def test_where_no_campaign_is_none_goes_on(tmp_path):
    with pytest.raises(UserError, match="no run folder"):
        continued(tmp_path / "nothing")
    (tmp_path / "records.jsonl").write_text(line_of(attack_record()))
    with pytest.raises(UserError, match="no finished case"):
        continued(tmp_path)


@pytest.mark.parametrize(
    ("checked", "size", "verdict"),
    [
        (Checked((GOOD, BAD)), 1.0, Verdict.VIOLATED),
        (Checked((GOOD,), ("not finite",)), 1.0, Verdict.UNKNOWN),
        (Checked((GOOD,), ("not finite",)), 1e100, Verdict.HOLDS),
    ],
)
def test_a_campaign_that_goes_on_answers_for_the_one_before(checked, size, verdict, tmp_path):
    record = case_record(Case(10, token_size=size), checked, seconds=1.0)
    (tmp_path / "records.jsonl").write_text(line_of(record))
    assert continued(tmp_path).verdict is verdict
