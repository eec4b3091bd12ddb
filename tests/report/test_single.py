"""The report of one run: the verdict first, nothing fetched, nothing run, nothing lost."""

import json
import re
from pathlib import Path

import pytest

from robust_attn.records.parts import BoundPart, Observed
from robust_attn.report import write_report, write_report_without_figures
from robust_attn.types import Verdict
from robust_attn.views.table import ROWS_SHOWN
from tests.records.samples import attack_record, certified, prediction_record
from tests.views.runs import BROKEN, KINDS, NOTHING, moved

from .folders import write_run
from .pages import EVIL, Page, page_of


def test_the_verdict_comes_first_with_promise_and_confidence(tmp_path):
    text = page_of(write_run(tmp_path / "run")).text
    places = [text.index(part) for part in ("Every promise held", "For each of the 4 texts", "at most 1 in 41 million")]
    assert places == sorted(places)
    assert places[-1] < text.index("layer by layer")
    assert "python -m robust_attn attack=mass_split model=minilm" in text
    assert "5c38ec7c405ec4b4" in text
    assert "minilm: how far can its attention be pushed?" in text
    assert "Time taken 12 s" in text


@pytest.mark.parametrize("kind", KINDS)
def test_everything_a_run_leaves_is_there_whatever_its_kind(kind, tmp_path):
    folder = write_run(tmp_path / "run", KINDS[kind])
    assert write_report(folder) == folder / "report.html"
    page = Page((folder / "report.html").read_text(encoding="utf-8"))
    drawn = {name.removeprefix("figure-") for name in page.ids if name.startswith("figure-")}
    assert drawn == {path.stem for path in folder.glob("figures/*.png")}
    assert drawn or kind == "study"
    title = page.text.split("robust_attn · report")[1]
    headline = (folder / "report.md").read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
    assert headline in title
    assert len(page.ids) == len(set(page.ids))
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]
    for word in ("nan", "None", "inf", "null"):
        assert re.search(rf"\b{word}\b", page.text) is None, word


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_promise_is_the_first_thing_said(kind, tmp_path):
    page = page_of(write_run(tmp_path / "run", [BROKEN[kind]]))
    assert "Nothing is promised" in page.text or "broken" in page.text
    assert 'class="verdict violated"' in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_markup_in_texts_names_and_settings_stays_text(tmp_path):
    bounds = (BoundPart(name=EVIL, output_change=1.0), BoundPart(name="b", applies=False, why_not=EVIL))
    records = [
        attack_record(attack=EVIL, model=EVIL, weights=EVIL, bounds=bounds, certified=certified(0.2, EVIL)),
        prediction_record(text=EVIL, flip_radius={EVIL: 0.1}),
    ]
    folder = write_run(
        tmp_path / "run",
        records,
        overrides=(f"attack={EVIL}",),
        environment={"weights_note": EVIL, EVIL: EVIL},
        summary={"status": EVIL, "message": EVIL, "model": EVIL},
        config=f"a: {EVIL!r}\n",
        inputs={"3": [[EVIL, EVIL, EVIL]]},
    )
    page = page_of(folder)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert "alert('x')" in page.text
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    before_code = (folder / "report.md").read_text(encoding="utf-8").split("```sh")[0]
    assert "<script>" not in before_code


@pytest.mark.parametrize("records", [KINDS["attack"], []])
def test_nothing_is_fetched(tmp_path, records):
    page = page_of(write_run(tmp_path / "run", records))
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"url\(\s*['\"]?(?!#)", text) is None
    assert "@import" not in text


@pytest.mark.slow
@pytest.mark.parametrize("samples", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_many_records_stay_small_and_say_what_is_left_out(tmp_path, samples):
    records = [moved([0.01 * n] * 32, layer, n) for layer in range(20) for n in range(samples)]
    records[577] = attack_record(3, 577, verdict=Verdict.VIOLATED)
    report = write_report(write_run(tmp_path / "run", records))
    page = Page(report.read_text(encoding="utf-8"))
    print(f"{len(records)} records: {report.stat().st_size / 1e6:.2f} MB")
    assert report.stat().st_size < 3_000_000
    assert f"{ROWS_SHOWN} of {len(records)} rows are shown" in page.text
    assert f"{len(records) - ROWS_SHOWN} are not" in page.text
    assert "records.jsonl" in page.addresses
    assert page.text.count("VIOLATED") > 1
    assert "A promise was broken" in page.text


def test_enormous_texts_and_settings_do_not_swell_the_page(tmp_path):
    records = [prediction_record(sample, text="word " * 50_000) for sample in range(40)]
    folder = write_run(tmp_path / "run", records, config=f"a: {'x' * 500_000}\n", environment={"note": "y" * 500_000})
    assert write_report(folder).stat().st_size < 1_000_000


def test_a_cut_last_line_is_mentioned(tmp_path):
    text = page_of(write_run(tmp_path / "run", tail='{"schema": 2, "la', finished=False)).text
    assert "1 line of records.jsonl could not be read" in text
    assert "not finished" in text


def test_records_of_any_shape_never_stop_a_report(tmp_path):
    odd = (
        {},
        {"kind": "new", "a": [1]},
        {"kind": EVIL},
        {"kind": "attack", "verdict": 3},
        {"schema": 1, "layer": "x"},
        7,
    )
    tail = "".join(json.dumps(line) + "\n" for line in odd)
    page = page_of(write_run(tmp_path / "run", KINDS["attack"], tail=tail))
    assert f"{len(odd)} lines of records.jsonl could not be read" in page.text
    assert "Nothing was measured" in page_of(write_run(tmp_path / "odd", [], tail=tail)).text


def test_unknown_is_said_and_never_nan(tmp_path):
    lost = attack_record(0, observed=Observed(), certified=NOTHING, tightness=None, convergence=(None,))
    page = page_of(write_run(tmp_path / "run", [lost, attack_record(1)]))
    assert "Not every promise could be computed" in page.text
    assert "UNKNOWN" in page.text
    for word in ("nan", "None", "inf", "null"):
        assert re.search(rf"\b{word}\b", page.text) is None, word


def test_a_failed_run_says_so_and_why(tmp_path):
    text = page_of(write_run(tmp_path / "run", [], summary={"status": "failed", "message": "out of memory"})).text
    assert "This run failed: out of memory." in text
    assert "Nothing was measured" in text


def test_random_weights_are_announced_loudly_and_only_then(tmp_path):
    note = "No pretrained weights within reach: random weights, seed 0."
    drawn = [attack_record(weights="random:0")]
    text = page_of(write_run(tmp_path / "a", drawn, environment={"weights_note": note})).text
    assert f"Random weights. {note}" in text
    assert "Random weights." not in page_of(write_run(tmp_path / "b")).text


def test_a_run_that_attacked_nothing_names_no_attack(tmp_path):
    folder = write_run(tmp_path / "run", KINDS["lipschitz"], summary={"task": "lipschitz", "attack": "move"})
    text = page_of(folder).text.split("How to repeat it")[0]
    assert "attack move" not in text
    for word in ("UNKNOWN", "The promise, layer by layer", "Promises that stand"):
        assert word not in text


def test_a_failure_while_writing_leaves_the_old_report(tmp_path, monkeypatch):
    folder = write_run(tmp_path / "run", [attack_record()])
    old = write_report(folder).read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == old
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_without_figures_nothing_is_drawn(tmp_path):
    folder = write_run(tmp_path / "run")
    page = Page(write_report_without_figures(folder).read_text(encoding="utf-8"))
    assert "In pictures" not in page.text
    assert not (folder / "figures").exists()
    assert "figures/" not in (folder / "report.md").read_text(encoding="utf-8")


def test_cut_inputs_do_not_stop_a_report_and_layers_have_names(tmp_path):
    folder = write_run(tmp_path / "run", [moved([0.1, 0.2], layer) for layer in (2, 7)])
    (folder / "inputs.json").write_text('{"2": [["a", "b"', encoding="utf-8")
    page = page_of(folder)
    assert "tokens go by their numbers" in page.text
    assert {"passages-2", "passages-7"} <= set(page.ids)
    assert page.tags.count("input") == 2


def test_markdown_names_the_tokens_that_moved_most(tmp_path):
    record = moved([0.25, 0.0, 0.5], parts=[2, 2, 2], apart=[0.25, 0.0, 0.0])
    folder = write_run(tmp_path / "run", [record], inputs={"3": [["a|b", "c", "<d>"]]})
    write_report(folder)
    text = (folder / "report.md").read_text(encoding="utf-8")
    assert "* layer 0, sample 0: &lt;d&gt; 0.500, a\\|b 0.250 ×2" in text


def test_predictions_leave_a_file_of_radii_and_lead_with_accuracy_whether_or_not_figures_are_drawn(tmp_path):
    folder = write_run(tmp_path / "run", [prediction_record(n, row=n) for n in range(3)])
    page = write_report(folder).read_text(encoding="utf-8")
    assert (folder / "predictions.csv").read_text().startswith("sample,row,label,predicted,")
    assert page.index("figure-accuracy-any-tokens") < page.index('id="prediction-table"') < page.index("figure-flips")
    (folder / "predictions.csv").unlink()
    write_report_without_figures(folder)
    assert (folder / "predictions.csv").is_file()
