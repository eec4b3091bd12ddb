import math
from pathlib import Path

import pytest

from robust_attn.report.certificates import certificate_rows, radius_of, radius_promise, smallest_radius
from robust_attn.report.findings import findings_of, tiles
from robust_attn.report.load import load_run
from robust_attn.report.rows import row_of
from robust_attn.types import Verdict

from .sample_runs import certificate_record, write_run
from .test_html import page_of


def test_a_row_promises_for_all_samples() -> None:
    """Changes 0.2 and 0.5 become 0.5, radii 3 and 2 become 2, and the bounds named are those of these samples."""
    first = certificate_record(0, 0, radius=3.0, certified={"bound": "a", "output_change": 0.2})
    second = certificate_record(0, 1, radius=2.0, certified={"bound": "b", "output_change": 0.5})
    second["norms"]["kappa"] = 199.0
    second["certified_radius"]["bound"] = "c"
    (row,) = certificate_rows([first, second])
    assert (row.certified, row.bound, row.certified_radius, row.radius_bound) == (0.5, "b", 2.0, "c")
    assert (row.kappa, row.samples, row.place) == (199.0, 2, "0")


def test_layers_come_before_their_heads_and_records_without_norms_are_left_out() -> None:
    lines = [certificate_record(layer, head=head) for layer in (1, 0) for head in (1, None, 0)]
    plain = certificate_record(7)
    del plain["norms"]
    assert [row.place for row in certificate_rows([*lines, plain, {}])] == ["0", "0.0", "0.1", "1", "1.0", "1.1"]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"radius": 0.5, "unbounded": False}, 0.5),
        ({"radius": None, "unbounded": True}, math.inf),
        ({"radius": None, "unbounded": False}, None),
        ({"radius": None, "unbounded": "yes"}, None),
        (None, None),
        ("x", None),
    ],
)
def test_radii_of_records(fields: object, expected: float | None) -> None:
    assert radius_of({"certified_radius": fields}) == expected


def test_one_unknown_radius_leaves_its_layer_without_one() -> None:
    known, unknown = certificate_record(0, 0, radius=2.0), certificate_record(0, 1, radius=None)
    (row,) = certificate_rows([known, unknown])
    assert row.certified_radius is None
    assert row.radius_shown == "unknown"
    assert radius_promise([row]) == "No radius is promised for layer 0."


def test_radii_are_rounded_down_and_endless_ones_are_any() -> None:
    (row,) = certificate_rows([certificate_record(0, radius=0.12399)])
    assert row.radius_shown == "0.123"
    endless = certificate_record(0, radius=None)
    endless["certified_radius"]["unbounded"] = True
    assert certificate_rows([endless])[0].radius_shown == "any"
    (mixed,) = certificate_rows([endless, certificate_record(0, 1, radius=2.0)])
    assert mixed.certified_radius == 2.0


def test_the_promise_speaks_of_layers_alone() -> None:
    rows = certificate_rows([certificate_record(3, radius=0.5), certificate_record(3, head=0, radius=0.1)])
    assert radius_promise(rows) == (
        "For the same inputs, the output of layer 3 changes by at most 0.1 under every perturbation of size at most "
        "0.500 (in the norm of the budget)."
    )
    both = certificate_rows([certificate_record(3, radius=0.5), certificate_record(4, radius=0.25)])
    assert "from 0.250 in layer 4 to 0.500 in layer 3" in radius_promise(both)
    smallest = smallest_radius(both)
    assert smallest is not None
    assert smallest.layer == 4


def test_nothing_is_said_of_radii_that_nobody_asked_for() -> None:
    rows = certificate_rows([certificate_record(0) | {"certified_radius": None}])
    assert radius_promise(rows) == ""
    assert smallest_radius(rows) is None


def test_a_broken_certificate_promises_no_radius() -> None:
    rows = certificate_rows([certificate_record(0, verdict="VIOLATED"), certificate_record(1)])
    assert rows[0].verdict is Verdict.VIOLATED
    assert radius_promise(rows).startswith("No radius is promised")


@pytest.mark.parametrize(
    ("certified", "of_radius", "together"), [(0.0, 1e-9, 1e-9), (1e-9, 0.0, 1e-9), (None, 0.5, None)]
)
def test_confidence_covers_the_radius_too(certified: float | None, of_radius: float, together: float | None) -> None:
    """One estimate, one event: the larger of both probabilities, not their sum; unknown stays unknown."""
    line = certificate_record(0)
    line["certified"]["failure_probability"] = certified
    line["certified_radius"]["failure_probability"] = of_radius
    assert row_of(line).failure_probability == together


def test_page_and_markdown_have_the_table_the_promise_and_the_tile(tmp_path: Path) -> None:
    lines = [certificate_record(layer, s, head=h) for layer in (0, 1) for h in (None, 0, 1) for s in (0, 1)]
    folder = write_run(tmp_path / "run", lines, summary_fields={"task": "certify", "attack": None})
    page = page_of(folder)
    for words in ("Layers and heads", "|W_O W_V|", "|A|", "c_n", "κ", "Certified radius", "For the same inputs"):
        assert words in page.text
    assert len(page.ids) == len(set(page.ids))
    markdown = (folder / "report.md").read_text(encoding="utf-8")
    assert "| layer.head |" in markdown
    assert "radius that keeps 0.1" in markdown
    assert "| 1.1 |" in markdown
    assert "Certified radius" in [label for label, _, _ in tiles(findings_of(load_run(folder)))]


def test_without_a_tolerance_there_are_norms_and_no_radius(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [certificate_record(0) | {"certified_radius": None}])
    page = page_of(folder)
    assert "Layers and heads" in page.text
    assert "Radius by" not in page.text
    assert "radius that keeps" not in (folder / "report.md").read_text(encoding="utf-8")


ODD = [
    {"norms": {}, "certified": {}},
    {"norms": {"kappa": "x"}, "certified": 3, "certified_radius": []},
    {"norms": {}, "verdict": "HOLDS", "certified_radius": {"tolerance": "a", "unbounded": 1, "bound": "<script>"}},
    {"norms": {}, "observed": {}, "layer": "x", "head": -1.5, "certified_radius": {"tolerance": 1, "radius": "inf"}},
]


@pytest.mark.parametrize("lines", [*([line] for line in ODD), [*ODD, certificate_record(0)]])
def test_odd_records_never_stop_a_report(tmp_path: Path, lines: list[dict]) -> None:
    page = page_of(write_run(tmp_path / "run", lines))
    assert page.tags.count("script") == 1
    assert "Layers and heads" in page.text
