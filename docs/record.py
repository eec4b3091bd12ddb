"""Keeps what a command printed in docs/recorded/, where a test compares it with the pages that quote it.

    python docs/record.py results.txt -m benchmarks.results
    python docs/record.py --with report.md quickstart.txt -m robust_attn experiment=quickstart
    python docs/record.py --with report.md --with summary.json --keep DIR radius.txt -m robust_attn experiment=radius

A page quotes lines of such a file below a comment, `<!-- recorded: results.txt -->`. `--with FILE` adds a file of the
run's folder to what was printed, `--keep DIR` keeps the folder, for its figures. Record from a clean checkout: the
commit that is written down is the one that ran.
"""

from __future__ import annotations

import argparse
import datetime
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> None:
    """Run the command, and keep its output below the command, the date and the commit."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", help="the file in docs/recorded/")
    parser.add_argument("--with", dest="files", action="append", help="a file of the run's folder, such as report.md")
    parser.add_argument("--keep", type=Path, help="where the run's folder is kept; with --with")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what follows `python`")
    asked = parser.parse_args()
    output = printed(asked.command, asked.files or [], asked.keep)
    heading = f"$ {shlex.join(['python', *asked.command])}\n{today()}, commit {commit()}\n"
    (ROOT / "docs" / "recorded" / asked.name).write_text(f"{heading}\n{output}", encoding="utf-8")


def printed(command: list[str], files: list[str], keep: Path | None) -> str:
    """What the command prints, and what is asked for of the files that it leaves in its folder."""
    environment = os.environ | {"COLUMNS": "100"}
    with tempfile.TemporaryDirectory() as folder:
        place = [f"hydra.run.dir={folder}/run", "tracker=none"] if files else []
        ran = subprocess.run(
            [sys.executable, *command, *place], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        if keep:
            shutil.copytree(Path(folder, "run"), keep)
        kept = [f"\n{file}\n\n{Path(folder, 'run', file).read_text(encoding='utf-8')}" for file in files]
        return "".join([ran.stdout, *kept])


def today() -> str:
    """The date as pages write it."""
    now = datetime.datetime.now(tz=datetime.UTC)
    return f"{now.day} {now:%B %Y}"


def commit() -> str:
    """The commit that is checked out; one with changes of its own is refused."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    if git("status", "--porcelain", "--", "robust_attn", "conf", "benchmarks"):
        raise SystemExit("there are changes that are not committed: what ran could not be named")
    return git("rev-parse", "--short=7", "HEAD")


if __name__ == "__main__":
    main()
