"""The report in a real browser, where there is one."""

import os
import shutil
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from robust_attn.report import write_report, write_sweep_report
from tests.records.samples import attack_record, certified, certify_record
from tests.views.runs import KINDS, NOTHING, moved

from .folders import write_run, write_sweep
from .pages import EVIL

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("ROBUST_ATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
LETTER_SIZE = "t => parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)"
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"]
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=arguments)
        yield opened
        opened.close()


@pytest.fixture
def visit(browser: Any) -> Iterator[Any]:
    """Opens a file; at the end no error was logged and no request left the file."""
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    trouble: list[str] = []
    requests: list[str] = []

    def opened(path: Path) -> Any:
        page = context.new_page()
        page.on("console", lambda message: trouble.append(message.text))
        page.on("pageerror", lambda error: trouble.append(str(error)))
        page.on("dialog", lambda dialog: trouble.append(dialog.message))
        page.on("request", lambda request: requests.append(request.url))
        page.goto(path.as_uri())
        return page

    yield opened
    context.close()
    assert trouble == []
    assert [url for url in requests if not url.startswith(("file:", "data:"))] == []
    assert len([url for url in requests if url.startswith("file:")]) == 1


def column(page: Any, table: str, index: int) -> list[str]:
    return page.locator(f"#{table} tbody tr td:nth-child({index})").all_inner_texts()


def test_a_click_and_a_key_sort_and_unknown_stays_last(tmp_path: Path, visit: Any) -> None:
    records = [attack_record(n, certified=certified(0.2 / (n % 4 + 1))) for n in range(8)]
    page = visit(write_report(write_run(tmp_path / "run", [attack_record(9, certified=NOTHING), *records])))
    titles = page.locator("#record-table thead th").all_inner_texts()
    place = [" ".join(title.split()) for title in titles].index("Moves at most") + 1
    button = page.locator(f"#record-table thead th:nth-child({place}) button")
    button.click()
    ascending = column(page, "record-table", place)
    assert ascending[-1] == "unknown"
    numbers = [float(text) for text in ascending[:-1]]
    assert numbers == sorted(numbers)
    assert page.locator(f"#record-table th:nth-child({place})").get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    descending = column(page, "record-table", place)
    assert descending[-1] == "unknown"
    assert [float(text) for text in descending[:-1]] == numbers[::-1]


def test_the_hover_of_a_mark_shows_its_value(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", KINDS["attack"])))
    titles = page.locator("#figure-layers .mark > title").all_text_contents()
    assert any(title == "layer 1, certified: 0.200" for title in titles)


def test_markup_from_a_run_does_nothing(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", [attack_record(attack=EVIL)], overrides=(EVIL,))))
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("kind", KINDS)
def test_the_page_never_scrolls_sideways(tmp_path: Path, visit: Any, kind: str) -> None:
    page = visit(write_report(write_run(tmp_path / "run", KINDS[kind], environment={"commit": "0123456789" * 4})))
    for width in (1280, 400):
        page.set_viewport_size({"width": width, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    sizes = page.evaluate(f"[...document.querySelectorAll('svg text')].map({LETTER_SIZE}).filter(size => size > 0)")
    assert min(sizes, default=9.0) >= 8.5  # the width is that of a telephone now


def test_every_column_fits_on_a_laptop(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", KINDS["attack"])))
    room, needed = page.locator("#record-table").evaluate("t => [t.parentElement.clientWidth, t.scrollWidth]")
    assert needed <= room


@pytest.mark.slow
def test_a_page_with_all_the_rows_it_may_show_opens_quickly(tmp_path: Path, visit: Any) -> None:
    report = write_report(
        write_run(tmp_path / "run", [attack_record(n % 20, n) for n in range(600)])
    )  # more than ROWS_SHOWN
    started = time.perf_counter()
    visit(report)
    seconds = time.perf_counter() - started
    print(f"{report.stat().st_size / 1e6:.2f} MB opened in {seconds:.2f} s")
    assert seconds < 5.0


def test_a_sweep_sorts_too(tmp_path: Path, visit: Any) -> None:
    page = visit(write_sweep_report(write_sweep(tmp_path)))
    page.locator("#run-table thead th:nth-child(5) button").click()
    lengths = [int(text) for text in column(page, "run-table", 5)]
    assert lengths == sorted(lengths)


@pytest.fixture(scope="module")
def report_of_markup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run over two layers whose text is markup."""
    words = ["<script>", "alert(1)", "</script>", "</style>", "<img src=x onerror=alert(2)>"]
    lengths = [[0.1, 0.2, 0.3, 0.0, 0.1], [0.4, 0.2, 0.1, 0.0, 0.0]]
    records = [moved(rms, layer) for layer, rms in enumerate(lengths)]
    return write_report(write_run(tmp_path_factory.mktemp("markup") / "run", records, inputs={"5": [words]}))


@pytest.fixture
def passages(report_of_markup: Path, visit: Any) -> Any:
    return visit(report_of_markup)


def test_tokens_are_text_whatever_they_hold_and_tell_how_far_they_moved(passages: Any) -> None:
    chosen = passages.locator(".passages:visible .passage")
    assert chosen.inner_text() == "<script> alert(1) </script> </style> <img src=x onerror=alert(2)>"
    assert passages.locator("script").count() == 1
    assert passages.locator(".passages:visible .token").nth(1).get_attribute("title") == "token 1 moved 0.200"


def test_a_token_that_moved_further_has_the_thicker_line_and_the_stronger_colour(passages: Any) -> None:
    style = "e => e.map(x => getComputedStyle(x)).map(s => [parseFloat(s.borderBottomWidth), s.backgroundColor])"
    passages.locator("input[value=passages-0]").check(force=True)
    (first, _), (second, _), (third, strong), (still, none), _ = passages.locator(
        ".passages:visible .token"
    ).evaluate_all(style)
    assert still < first < second < third
    assert strong != none


def test_the_keyboard_chooses_the_layer(passages: Any) -> None:
    shown = passages.locator(".passages:visible h3")
    before = shown.all_inner_texts()
    passages.locator("input[name=passage-layer]:checked").focus()
    passages.keyboard.press("ArrowRight")
    assert len(before) == 1
    assert len(shown.all_inner_texts()) == 1
    assert shown.all_inner_texts() != before


def test_on_paper_every_layer_and_every_table_is_there(passages: Any) -> None:
    passages.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    passages.emulate_media(media="print")
    assert passages.locator(".passages:visible").count() == 2
    assert passages.locator("#token-table").is_visible()
    assert not passages.locator("fieldset").is_visible()
    passages.set_viewport_size({"width": 680, "height": 900})  # A4 between its margins
    assert passages.evaluate("document.documentElement.scrollWidth") <= 680
    assert len(passages.pdf()) > 10_000


def test_the_map_of_heads_tells_its_values(tmp_path: Path, visit: Any) -> None:
    records = [certify_record(layer, head) for layer in range(2) for head in (None, 0, 1)]
    page = visit(write_report(write_run(tmp_path / "run", records)))
    titles = page.locator("#figure-heads .mark > title").all_text_contents()
    assert len(titles) == 4
    assert titles[0].startswith("layer 0, head 0: at most ")
    assert page.locator("#certificate-table tbody tr").count() == 6
    assert page.locator("#figure-heads svg").get_attribute("aria-label").startswith("Layers and heads. 4 heads")


def test_every_table_of_a_sweep_sorts_and_its_figures_tell_values(tmp_path: Path, visit: Any) -> None:
    folder = write_sweep(tmp_path)
    write_run(folder / "99", [attack_record()], finished=False, overrides=("attack=move", "model=gpt2", "tokens=16"))
    page = visit(write_sweep_report(folder))
    for table in page.locator("table[data-sortable]").all():
        button = table.locator("thead button").last
        button.click()
        assert table.locator("thead th").last.get_attribute("aria-sort") == "ascending"
    assert page.locator("table[data-sortable]").count() == 5
    assert page.locator("#unfinished-table tbody tr").count() == 1
    titles = page.locator("#figure-splitting .mark > title").all_text_contents()
    assert any(title.startswith("layer 0, model=gpt2: 1.3") for title in titles)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read_on_what_is_behind_them(passages: Any, scheme: str) -> None:
    """WCAG asks for a contrast of 4.5 for text; the darkest token and every badge included."""
    passages.emulate_media(color_scheme=scheme)
    contrasts = passages.evaluate(CONTRASTS)
    assert {name: round(value, 2) for name, value in contrasts.items() if value < 4.5} == {}


CONTRASTS = """() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const paint = colours => {
    canvas.clearRect(0, 0, 1, 1);
    for (const colour of colours) { canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1); }
    return Array.from(canvas.getImageData(0, 0, 1, 1).data.slice(0, 3));
  };
  const light = rgb => rgb.map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    const found = [];
    for (let e = element; e; e = e.parentElement) found.unshift(getComputedStyle(e).backgroundColor);
    return found;
  };
  const result = {};
  const names = [".verdict h2", ".promise", ".quiet", ".token[style*='1.00']", ".badge", "td", ".why", "figcaption"];
  for (const name of [...names, "footer", "legend"]) {
    const element = document.querySelector(name);
    if (!element) continue;
    const back = behind(element);
    const ink = light(paint([...back, getComputedStyle(element).color])), page = light(paint(back));
    result[name] = (Math.max(ink, page) + 0.05) / (Math.min(ink, page) + 0.05);
  }
  return result;
}"""


def test_everything_that_can_be_used_has_a_name_and_tables_have_heads(passages: Any) -> None:
    unnamed = "e => e.filter(x => !(x.textContent || x.getAttribute('aria-label') || x.labels?.length)).length"
    assert passages.locator("button, a, input, select, summary").evaluate_all(unnamed) == 0
    assert passages.locator("th:not([scope])").count() == 0
    assert passages.locator("[role=region]:not([aria-labelledby])").count() == 0
    dangling = "e => e.filter(x => !document.getElementById(x.getAttribute('aria-labelledby'))).length"
    assert passages.locator("[aria-labelledby]").evaluate_all(dangling) == 0
    levels = passages.locator("h1, h2, h3").evaluate_all("e => e.map(x => Number(x.tagName[1]))")
    assert levels[0] == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))
