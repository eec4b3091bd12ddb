"""Makes the pictures of reports in docs/: runs what they show, then photographs the reports in chromium.

    python docs/screenshots.py             # a run on MiniLM and a sweep over two models: some minutes
    python docs/screenshots.py --runs DIR  # keep the runs in DIR, and use those that are there already

Needs playwright and a chromium (or ROBUST_ATTN_CHROMIUM). Every command is printed before it is run.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
WIDTH, MARGIN = 1200, 28
TEXT = ("data=text", "data.path=LICENSE", "tracker=none")
MINILM = ("attack=mass_split", "model=minilm", "layers=[0,1,3,5]", "tokens=32", "samples=2", *TEXT)
SWEEP = (
    *("-m", "attack=move,mass_split", "model=minilm,smollm2", "tokens=8,12,16,24"),
    *("layers=[0,3]", "samples=1", "attack.steps=10", *TEXT),
)
CERTIFY = ("task=certify", "model=minilm", "tokens=16", "samples=1", *TEXT)


@dataclass(frozen=True)
class Picture:
    """A run or sweep, and the last element of its report that is shown; or that element `alone`."""

    name: str
    settings: tuple[str, ...]
    folder_key: str
    until: str
    alone: bool = False
    scheme: str = "light"


PICTURES = (
    Picture("report_minilm", MINILM, "hydra.run.dir", "#figure-layers"),
    Picture("report_minilm_dark", MINILM, "hydra.run.dir", "#figure-layers", scheme="dark"),
    Picture("report_sweep", SWEEP, "hydra.sweep.dir", "#figure-along-tokens"),
    Picture("report_heads", CERTIFY, "hydra.run.dir", "#figure-heads", alone=True),
)


def called(*command: str) -> None:
    """Print a command as a person would type it, and run it from the root of the repository."""
    print("$", shlex.join(["python", *command]), flush=True)
    subprocess.run([sys.executable, *command], cwd=HERE.parent, check=True)


def report_of(picture: Picture, runs: Path) -> Path:
    """The report of what is to be shown, made where it is not there yet."""
    folder = runs / picture.name.removesuffix("_dark")
    if not folder.exists():
        called("-m", "robust_attn", *picture.settings, f"{picture.folder_key}={folder}")
    called("-m", "robust_attn.report", str(folder))
    return folder / "report.html"


def photograph(report: Path, picture: Picture) -> Path:
    """The report at the width of a laptop, as a PNG in docs/."""
    from playwright.sync_api import sync_playwright

    chromium = os.environ.get("ROBUST_ATTN_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    target = HERE / f"{picture.name}.png"
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        browser = playwright.chromium.launch(executable_path=chromium, args=arguments)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme=picture.scheme)
        page.goto(report.as_uri())
        last = page.locator(picture.until)
        bottom = last.evaluate("element => element.getBoundingClientRect().bottom + window.scrollY")
        page.set_viewport_size({"width": WIDTH, "height": round(bottom) + MARGIN})
        (last if picture.alone else page).screenshot(path=target)
        browser.close()
    return target


def main() -> None:
    """Every picture, one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, help="where the runs are kept; by default they are removed at the end")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        runs = (options.runs or Path(temporary)).resolve()
        for picture in PICTURES:
            print(photograph(report_of(picture, runs), picture), flush=True)


if __name__ == "__main__":
    main()
