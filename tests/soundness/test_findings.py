import io

from rich.console import Console

from robust_attn.soundness.campaign import case_record
from robust_attn.soundness.case import Case
from robust_attn.soundness.comparison import Checked, Comparison
from robust_attn.soundness.findings import closest_table, findings

HALF, EXACT = Comparison("a", 0, 0.5, 0.0, 1.0), Comparison("a", 0, 1.0, 0.0, 1.0)
ABOVE_ZERO = Comparison("b", 0, 1.0, 0.0, 0.0)


def record(seed: int, *comparisons: Comparison, unknown: tuple[str, ...] = ()) -> dict:
    return case_record(Case(seed), Checked(comparisons, unknown), seconds=0.5)


def test_the_closest_approach_comes_with_its_seed():
    found = findings([record(3, HALF), record(4, EXACT, HALF), record(5, HALF)])
    assert found["closest"] == {"a": {"approach": 1.0, "seed": 4}}
    assert (found["cases"], found["comparisons"], found["violations"], found["last_seed"]) == (3, 4, 0, 5)
    assert found["cases_per_minute"] == 120.0


def test_what_is_above_a_bound_of_zero_is_the_closest_of_all():
    found = findings([record(1, Comparison("b", 0, 0.5, 0.0, 1.0)), record(2, ABOVE_ZERO)])
    assert found["closest"]["b"] == {"approach": None, "seed": 2}
    assert found["violations"] == 1


def test_unknown_is_counted_by_reason_without_its_details():
    found = findings([record(1, unknown=("Error: one", "Error: two")), record(2, HALF, unknown=("other",))])
    assert found["unknown"] == {"Error": 2, "other": 1}
    assert found["unknown_cases"] == 2


def test_an_earlier_campaign_counts_as_its_cases():
    whole = findings([record(seed, HALF) for seed in range(4)])
    earlier = {"carried": findings([record(seed, HALF) for seed in range(2)])}
    assert findings([earlier, record(2, HALF), record(3, HALF)]) == whole


def test_the_table_says_it_all():
    screen = Console(file=io.StringIO(), width=200, record=True)
    screen.print(closest_table(findings([record(3, HALF), record(4, ABOVE_ZERO)])))
    shown = screen.export_text()
    for part in ("2 cases", "1 violations", "0.500000000", "above zero", "last seed 4"):
        assert part in " ".join(shown.split())


def test_what_was_drawn_is_counted_by_kind_and_said_below_the_table():
    exact = Comparison("a", 0, 0.5, 0.0, 1.0, exact=True)
    near, far = (
        Case(1, support="tokens", stored="float32"),
        Case(2, points="shifted", judged="exact", function="certify"),
    )
    records = [case_record(case, Checked((exact, HALF)), seconds=0.5) for case in (near, far)]
    found = findings(records)
    assert found["exact"] == 2
    assert found["drawn"]["support"] == {"none": 1, "tokens": 1}
    assert found["drawn"]["function"] == {"attack_records": 1, "certify": 1}
    assert found["drawn"]["judged"] == {"exact": 1, "floats": 1}
    assert findings([{"carried": findings(records[:1])}, records[1]])["drawn"] == found["drawn"]
    screen = Console(file=io.StringIO(), width=200, record=True)
    screen.print(closest_table(found))
    shown = " ".join(screen.export_text().split())
    assert "2 of them in exact arithmetic" in shown
    assert "points: normal 1, shifted 1" in shown


def test_records_made_before_there_were_kinds_still_count():
    old = record(3, HALF)
    del old["exact"]
    for name in ("function", "judged", "scale", "support_times", "distance"):
        del old["case"][name]
    carried = findings([record(2, HALF)])
    del carried["exact"], carried["drawn"]
    found = findings([{"carried": carried}, old])
    assert (found["cases"], found["exact"]) == (2, 0)
    assert found["drawn"]["function"] == {"attack_records": 1}
