from pathlib import Path

from robust_attn.report.findings import Findings, example_row, findings_of, tiles
from robust_attn.report.load import load_run
from robust_attn.report.rows import rows_of

from .sample_runs import constant_record, record, search_record, write_run

NOTHING = {"bound": None, "output_change": None, "failure_probability": None}


def found(tmp_path: Path, lines: list[dict]) -> Findings:
    return findings_of(load_run(write_run(tmp_path / "run", lines)))


def test_every_kind_has_its_place_and_its_sentence(tmp_path: Path) -> None:
    lines = [record(), search_record(), constant_record(), {"task": "new", "x": 1}]
    findings = found(tmp_path, lines)
    assert [len(part) for part in (findings.rows, findings.searches, findings.constants, findings.others)] == [1] * 4
    assert len(findings.promises) == 4
    assert findings.statement.headline.title == "Every promise held"


def test_tiles_speak_of_what_is_there(tmp_path: Path) -> None:
    def labels(name: str, line: dict) -> list[str]:
        return [label for label, _, _ in tiles(found(tmp_path / name, [line]))][:-1]

    attacked = ["Promises that hold", "Largest promise", "Largest gain seen", "Closest attack"]
    assert labels("attack", record()) == attacked
    assert labels("certify", record(attack="none")) == attacked[:2]
    assert labels("search", search_record()) == ["Largest gain proved", "Largest gain found", "Closest search"]
    assert labels("constant", constant_record()) == ["Largest local constant"]
    assert labels("other", {"task": "new"}) == ["Records"]


def test_a_head_is_not_the_largest_promise(tmp_path: Path) -> None:
    layer = record(attack="none", certified={"bound": "hull", "output_change": 0.5, "failure_probability": 0})
    head = layer | {"head": 0, "certified": layer["certified"] | {"output_change": 99.0}}
    assert ("Largest promise", "0.500") in [tile[:2] for tile in tiles(found(tmp_path, [layer, head]))]


def test_the_example_is_the_worst_record() -> None:
    rows = rows_of([record(0, tightness=0.5), record(1, tightness=0.9), record(2, tightness=0.99, head=1)])
    assert example_row(rows) is rows[1]
    broken = rows_of([record(0, tightness=0.9), record(1, tightness=0.1, verdict="VIOLATED", head=2)])
    assert example_row(broken) is broken[1]
    assert example_row(rows_of([record(bounds=[])])) is None
