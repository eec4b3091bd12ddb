import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from robust_attn.report import write_report
from robust_attn.report.html import ROWS_SHOWN

from .sample_runs import bound, constant_record, moved_record, record, records, search_record, write_run

EVIL = "</script><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>"
NOTHING = {"bound": None, "output_change": None, "failure_probability": None}
EMPTY = {"input_change": None, "output_change": None, "gain": None}


class Page(HTMLParser):
    """What a browser would see: elements, addresses, text and duplicate ids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self._silent = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._silent = tag in ("script", "style")
        for name, value in attrs:
            if name in ("src", "href", "srcset", "action", "data"):
                self.addresses.append(value or "")
            if name == "id":
                self.ids.append(value or "")
            if name.startswith("on"):
                self.handlers.append(name)

    def handle_endtag(self, _tag: str) -> None:
        self._silent = False

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))


def test_the_verdict_comes_first_with_promise_and_confidence(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run")).text
    places = [text.index(part) for part in ("Every promise held", "For each of the 4 texts", "at most 1 in 41 million")]
    assert places == sorted(places)
    assert places[-1] < text.index("layer by layer")
    assert "python -m robust_attn attack=mass_split model=minilm" in text
    assert "5c38ec7c405ec4b4" in text


def test_everything_a_run_leaves_is_there(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    assert write_report(folder) == folder / "report.html"
    assert {path.name for path in (folder / "figures").iterdir()} == {"layers.png", "ladder.png", "convergence.png"}
    assert "# Every promise held" in (folder / "report.md").read_text(encoding="utf-8")
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_markup_in_texts_names_and_settings_stays_text(tmp_path: Path) -> None:
    line = record(
        text=EVIL, attack=EVIL, model=EVIL, bounds=[bound(EVIL, 1.0, EVIL), bound("b", None, "x", why_not=EVIL)]
    )
    line["certified"]["bound"] = EVIL
    folder = write_run(
        tmp_path / "run",
        [line],
        overrides=(f"attack={EVIL}",),
        environment={"weights_note": EVIL, EVIL: EVIL},
        summary_fields={"status": EVIL, "message": EVIL, "model": EVIL},
        config=f"a: {EVIL!r}\n",
    )
    page = page_of(folder)
    assert page.tags.count("script") == 1
    assert "img" not in page.tags
    assert page.handlers == []
    assert "alert('x')" in page.text
    before_code = (folder / "report.md").read_text(encoding="utf-8").split("```sh")[0]
    assert "<script>" not in before_code


@pytest.mark.parametrize("lines", [records(2, 2), [], [record(text=EVIL)]])
def test_nothing_is_fetched(tmp_path: Path, lines: list[dict]) -> None:
    page = page_of(write_run(tmp_path / "run", lines))
    assert all(address.startswith(("#", "data:")) for address in page.addresses)
    assert len(page.ids) == len(set(page.ids))
    text = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert re.search(r"url\(\s*['\"]?(?!#)", text) is None
    assert "@import" not in text


@pytest.mark.parametrize("samples", [30, pytest.param(500, marks=pytest.mark.slow)])
def test_many_records_stay_small_and_say_what_is_left_out(tmp_path: Path, samples: int) -> None:
    places = [(layer, sample) for layer in range(20) for sample in range(samples)]
    lines = [moved_record([0.01 * sample] * 32, layer=layer, sample=sample) for layer, sample in places]
    lines[577]["verdict"] = "VIOLATED"
    report = write_report(write_run(tmp_path / "run", lines))
    page = Page(report.read_text(encoding="utf-8"))
    print(f"{len(lines)} records: {report.stat().st_size / 1e6:.2f} MB")
    assert report.stat().st_size < 3_000_000
    assert f"{ROWS_SHOWN} of {len(lines)} records are shown" in page.text
    assert f"{len(lines) - ROWS_SHOWN} are not shown" in page.text
    assert "records.jsonl" in page.addresses
    assert page.text.count("VIOLATED") > 1
    assert "A promise was broken" in page.text


def test_enormous_texts_and_settings_do_not_swell_the_page(tmp_path: Path) -> None:
    lines = [record(sample=sample, text="word " * 50_000) for sample in range(40)]
    folder = write_run(tmp_path / "run", lines, config=f"a: {'x' * 500_000}\n", environment={"note": "y" * 500_000})
    assert write_report(folder).stat().st_size < 1_000_000


def test_a_cut_last_line_is_mentioned(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run", tail='{"schema": 1, "la', finished=False)).text
    assert "1 line of records.jsonl could not be read" in text
    assert "not finished" in text


def test_unknown_is_said_and_never_nan(tmp_path: Path) -> None:
    lines = [
        record(0, 0, observed=EMPTY, certified=NOTHING, tightness=None, verdict="HOLDS", convergence=[None]),
        record(1),
    ]
    page = page_of(write_run(tmp_path / "run", lines))
    assert "Not every promise could be computed" in page.text
    assert "UNKNOWN" in page.text
    for word in ("nan", "None", "inf", "null"):
        assert re.search(rf"\b{word}\b", page.text) is None, word


def test_a_failed_run_says_so_and_why(tmp_path: Path) -> None:
    fields = {"status": "failed", "exit_status": 1, "message": "out of memory"}
    text = page_of(write_run(tmp_path / "run", [], summary_fields=fields)).text
    assert "This run failed: out of memory." in text
    assert "Nothing was measured" in text


def test_random_weights_are_announced_loudly_and_only_then(tmp_path: Path) -> None:
    note = "No pretrained weights within reach: random weights, seed 0."
    assert note in page_of(write_run(tmp_path / "a", environment={"weights_note": note})).text
    assert "Random weights." not in page_of(write_run(tmp_path / "b")).text


def test_certificates_without_attack_make_sense(tmp_path: Path) -> None:
    lines = records(3, 1, attack="none")
    text = page_of(write_run(tmp_path / "run", lines, summary_fields={"task": "certify", "attack": "none"})).text
    assert "Every layer is certified" in text
    assert "Closest attack" not in text


def test_why_a_bound_does_not_apply_is_given(tmp_path: Path) -> None:
    assert "does not apply: the layer has no causal mask" in page_of(write_run(tmp_path / "run")).text


def test_a_failure_while_writing_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_run(tmp_path / "run", [record()])
    old = write_report(folder).read_bytes()
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        write_report(folder)
    assert (folder / "report.html").read_bytes() == old
    assert not [path for path in folder.iterdir() if path.suffix == ".tmp"]


def test_heads_have_a_column_only_where_there_are_any(tmp_path: Path) -> None:
    assert "Layer Head Sample" in page_of(write_run(tmp_path / "a", [record(), record(head=2)])).text
    assert "Layer Sample" in page_of(write_run(tmp_path / "b", [record()])).text


def test_local_constants_promise_nothing_within_a_budget(tmp_path: Path) -> None:
    lines = [constant_record(layer, tokens=n) | {"released": 2.5} for layer in range(2) for n in (4, 16)]
    folder = write_run(tmp_path / "run", lines, summary_fields={"task": "lipschitz", "attack": "move"})
    text = page_of(folder).text
    assert "Sensitivity was measured; nothing was attacked" in text
    assert "Exponent b" in text
    assert "Paper’s released code" in text
    assert "attack move" not in text.split("Settings")[0]
    for word in ("UNKNOWN", "The promise, layer by layer", "Promises that hold", "Tightness"):
        assert word not in text
    assert {path.name for path in (folder / "figures").iterdir()} == {"lengths.png"}


def test_a_search_is_reported_as_gains_in_a_ball(tmp_path: Path) -> None:
    lines = [search_record(layer) for layer in range(2)]
    folder = write_run(tmp_path / "run", lines, summary_fields={"task": "worst_case"})
    page = page_of(folder)
    assert "No bound was broken" in page.text
    assert "Gain at most" in page.text
    for word in ("VACUOUS", "unknown", "The promise, layer by layer", "Closest attack"):
        assert word not in page.text
    assert len(page.ids) == len(set(page.ids))
    assert {path.stem for path in (folder / "figures").iterdir()} == {
        "search-layers",
        "search-ladder",
        "search-convergence",
    }


ODD = [
    {},
    {"task": "new", "released": 1.5, "nested": {"a": [1, {"b": None}]}},
    {"task": EVIL, EVIL: EVIL},
    {"task": 3, "layer": "x", "lipschitz": "y", "certified": [], "bounds": {"a": 1}, "verdict": ["HOLDS"]},
    {"task": "lipschitz", "lipschitz": {"lower": "x"}, "layer": None, "tokens": -4},
    {"task": "worst_case", "lipschitz": {}, "certified": {}, "bounds": None, "convergence": 3},
    {"task": "attack", "verdict": None, "budget": 3, "certified": 4, "observed": []},
]


@pytest.mark.parametrize("lines", [*([line] for line in ODD), [*ODD, record(), *ODD]])
def test_records_of_any_shape_are_shown_and_never_stop_a_report(tmp_path: Path, lines: list[dict]) -> None:
    page = page_of(write_run(tmp_path / "run", lines, finished=len(lines) > 1))
    assert page.tags.count("script") == 1
    assert page.handlers == []
    assert len(page.ids) == len(set(page.ids))


def test_an_experiment_is_shown_as_a_table_with_its_own_figures(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", [{"task": "new", "released": n / 7} for n in (1, 2)])
    (folder / "figures").mkdir()
    (folder / "figures" / "panel.png").write_bytes(b"\x89PNG\r\n\x1a\nrest")
    page = page_of(folder)
    assert "Records of the task “new”" in page.text
    assert "0.28571" in page.text
    assert [address for address in page.addresses if address.startswith("data:image/png")]
    assert "| released |" in (folder / "report.md").read_text(encoding="utf-8")
    assert "Every promise held" not in page.text


def test_certificates_without_attack_have_no_columns_for_one(tmp_path: Path) -> None:
    text = page_of(write_run(tmp_path / "run", records(2, 2, attack="none"))).text
    assert "Worst sample" not in text
    assert "Observed gain" not in text
    assert "dashed orange" not in text
