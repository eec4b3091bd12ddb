"""Makes the pictures of reports in docs/: runs what they show, then photographs the reports in chromium.

    python docs/screenshots.py             # the quickstart: a minute
    python docs/screenshots.py --runs DIR  # keep the runs in DIR, and use those that are there already
    python docs/screenshots.py --look DIR report.html ...  # whole reports into DIR, on a laptop and a telephone, light
                                           # and dark, to be looked at; says what is wider than the screen, and how
                                           # small the smallest letters of the figures are

Needs playwright and a chromium (or ROBUST_ATTN_CHROMIUM). Every command is printed before it is run.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
WIDTH, MARGIN = 1280, 28
LAPTOP, TELEPHONE = 1280, 400
WIDER = "e => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest('.scroll') && !e.closest('svg')"
LETTERS = "t => parseFloat(getComputedStyle(t).fontSize) * Math.hypot(t.getScreenCTM().a, t.getScreenCTM().b)"
COLOURS = 64


@dataclass(frozen=True)
class Picture:
    """A run, and the last element of its report that is shown."""

    name: str
    settings: tuple[str, ...]
    until: str
    scheme: str = "light"


PICTURES = (Picture("report_minilm", ("experiment=quickstart", "tracker=none"), "#layer-table"),)


def called(*command: str) -> None:
    """Print a command as a person would type it, and run it from the root of the repository."""
    print("$", shlex.join(["python", *command]), flush=True)
    subprocess.run([sys.executable, *command], cwd=HERE.parent, check=True)


def report_of(picture: Picture, runs: Path) -> Path:
    """The report of what is to be shown, made where it is not there yet."""
    folder = runs / picture.name
    if not folder.exists():
        called("-m", "robust_attn", *picture.settings, f"hydra.run.dir={folder}")
    called("-m", "robust_attn.report", str(folder))
    return folder / "report.html"


@contextlib.contextmanager
def opened(report: Path, width: int, scheme: str) -> Iterator[Any]:
    """The report as a page of chromium."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("ROBUST_ATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.goto(report.resolve().as_uri())
        yield page
        browser.close()


def photograph(report: Path, picture: Picture) -> Path:
    """The report at the width of a laptop, as a PNG in docs/ with few colours, which makes it small."""
    from PIL import Image

    target = HERE / f"{picture.name}.png"
    with opened(report, WIDTH, picture.scheme) as page:
        last = page.locator(picture.until)
        bottom = last.evaluate("element => element.getBoundingClientRect().bottom + window.scrollY")
        page.set_viewport_size({"width": WIDTH, "height": round(bottom) + MARGIN})
        page.screenshot(path=target)
    Image.open(target).convert("RGB").quantize(COLOURS).save(target, optimize=True)
    return target


def look(reports: list[Path], folder: Path) -> None:
    """Whole reports in every width and scheme, and what does not fit."""
    folder.mkdir(parents=True, exist_ok=True)
    for report, width, scheme in product(reports, (LAPTOP, TELEPHONE), ("light", "dark")):
        target = folder / f"{report.resolve().parent.name}-{width}-{scheme}.png"
        with opened(report, width, scheme) as page:
            wider = page.evaluate(f"() => [...document.querySelectorAll('body *')].filter({WIDER}).length")
            sizes = page.evaluate(f"() => [...document.querySelectorAll('svg text')].map({LETTERS}).filter(x => x > 0)")
            page.screenshot(path=target, full_page=True)
        smallest = f"smallest letters of figures {min(sizes):.1f} px" if sizes else "no figures"
        print(f"{target}: {wider} elements wider than the screen, {smallest}", flush=True)


def main() -> None:
    """Every picture, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="where the runs are kept; by default they are removed at the end")
    parser.add_argument("--look", metavar="DIR", type=Path, help="photograph whole reports into DIR, to be looked at")
    parser.add_argument("reports", type=Path, nargs="*", help="the reports, with --look")
    options = parser.parse_args()
    if options.look:
        look(options.reports, options.look)
        return
    with tempfile.TemporaryDirectory() as temporary:
        runs = (options.runs or Path(temporary)).resolve()
        for picture in PICTURES:
            print(photograph(report_of(picture, runs), picture), flush=True)


if __name__ == "__main__":
    main()
