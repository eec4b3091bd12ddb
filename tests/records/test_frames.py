"""Runs as rows: from a hand-written folder with every kind of damage, and from a real run."""

import json
import sys
from pathlib import Path

import pytest

import robust_attn as ra
from robust_attn.records.frames import run_rows
from robust_attn.records.store import line_of
from tests.composed import run

from .samples import attack_record, constant_record


def write_run(folder: Path, lines: list[str], overrides: str = "", status: str | None = None) -> None:
    (folder / ".hydra").mkdir(parents=True)
    (folder / "records.jsonl").write_text("".join(lines))
    (folder / ".hydra" / "overrides.yaml").write_text(overrides)
    if status is not None:
        (folder / "summary.json").write_text(json.dumps({"status": status}))


def test_a_sweep_under_way_with_a_line_cut_in_the_middle(tmp_path):
    """Run 2 is complete with two records; run 10 was cut in its second line; run 11 has written nothing yet."""
    first, second = line_of(constant_record()), line_of(attack_record(1))
    write_run(tmp_path / "2", [first, line_of(constant_record(1))], "- tokens=8\n- attack=move\n", "complete")
    write_run(tmp_path / "10", [second, second[:40]], "- tokens=16\n")
    write_run(tmp_path / "11", [])
    frame = ra.load_runs(tmp_path)
    assert list(frame.columns)[:6] == ["run", "status", "override.tokens", "override.attack", "schema", "kind"]
    assert list(frame["run"]) == ["2", "2", "10"]
    assert list(frame["status"]) == ["complete", "complete", "unfinished"]
    assert list(frame["override.tokens"]) == [8, 8, 16]
    assert list(frame["kind"]) == ["lipschitz", "lipschitz", "attack"]
    assert list(frame["layer"]) == [0, 1, 1]
    assert frame["tightness"].isna().tolist() == [True, True, False]
    assert frame["bounds.local.second_order.log10"][2] == 1.3


def test_every_number_of_a_real_run_is_in_the_frame(tmp_path):
    _, records, _, _ = run(tmp_path / "here", "model=toy", "attack=random")
    frame = ra.load_runs(tmp_path)
    assert list(frame["observed.gain"]) == [record["observed"]["gain"] for record in records]
    assert list(frame["certified.output_change"]) == [record["certified"]["output_change"] for record in records]
    for name, bound in ((bound["name"], bound) for bound in records[0]["bounds"]):
        assert run_rows(tmp_path)[0][f"bounds.{name}.output_change"] == bound["output_change"]
    assert set(frame["run"]) == {"here"}


def test_an_empty_folder_is_an_empty_frame_and_a_missing_one_is_a_sentence(tmp_path):
    assert len(ra.load_runs(tmp_path)) == 0
    with pytest.raises(ra.UserError, match="no folder"):
        ra.load_runs(tmp_path / "nowhere")


def test_without_pandas_the_sentence_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match=r"robust_attn\[frames\]"):
        ra.load_runs(tmp_path)


@pytest.fixture(autouse=True)
def _needs_pandas(request):
    if "frame" in request.node.name or "real_run" in request.node.name or "under_way" in request.node.name:
        pytest.importorskip("pandas", reason="the extra 'frames' is not installed")
