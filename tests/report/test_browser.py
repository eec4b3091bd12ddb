"""The report in a real browser, where there is one."""

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from robust_attn.report import write_report, write_sweep_report

from .sample_runs import record, records, write_run, write_sweep
from .test_html import EVIL

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = os.environ.get("ROBUST_ATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
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
    nothing = {"bound": None, "output_change": None, "failure_probability": None}
    page = visit(write_report(write_run(tmp_path / "run", [record(9, certified=nothing), *records(4, 2)])))
    button = page.locator("#record-table thead th:nth-child(9) button")
    button.click()
    ascending = column(page, "record-table", 9)
    assert ascending[-1] == "unknown"
    numbers = [float(text) for text in ascending[:-1]]
    assert numbers == sorted(numbers)
    assert page.locator("#record-table th:nth-child(9)").get_attribute("aria-sort") == "ascending"
    button.focus()
    page.keyboard.press("Enter")
    descending = column(page, "record-table", 9)
    assert descending[-1] == "unknown"
    assert [float(text) for text in descending[:-1]] == numbers[::-1]


def test_the_hover_of_a_mark_shows_its_value(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", records(2, 1))))
    titles = page.locator("#figure-layers .mark > title").all_text_contents()
    assert any(title.startswith("layer 1, certified: 0.") for title in titles)


def test_markup_from_a_run_does_nothing(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", [record(text=EVIL, attack=EVIL)], overrides=(EVIL,))))
    assert page.locator("script").count() == 1
    assert page.locator("img").count() == 0


@pytest.mark.parametrize("width", [1280, 420])
def test_the_page_never_scrolls_sideways(tmp_path: Path, visit: Any, width: int) -> None:
    page = visit(write_report(write_run(tmp_path / "run", records(2, 1))))
    page.set_viewport_size({"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_every_column_fits_on_a_laptop(tmp_path: Path, visit: Any) -> None:
    page = visit(write_report(write_run(tmp_path / "run", records(2, 1))))
    room, needed = page.locator("#record-table").evaluate("t => [t.parentElement.clientWidth, t.scrollWidth]")
    assert needed <= room


def test_a_page_with_all_the_rows_it_may_show_opens_quickly(tmp_path: Path, visit: Any) -> None:
    report = write_report(write_run(tmp_path / "run", records(20, 30)))  # more than ROWS_SHOWN
    started = time.perf_counter()
    visit(report)
    seconds = time.perf_counter() - started
    print(f"{report.stat().st_size / 1e6:.2f} MB opened in {seconds:.2f} s")
    assert seconds < 5.0


def test_a_sweep_sorts_too(tmp_path: Path, visit: Any) -> None:
    page = visit(write_sweep_report(write_sweep(tmp_path)))
    page.locator("#run-table thead th:nth-child(4) button").click()
    lengths = [int(text) for text in column(page, "run-table", 4)]
    assert lengths == sorted(lengths)
