"""`python -m robust_attn.report DIR`: one report over every run below DIR."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from robust_attn.report.many import write_sweep_report
from robust_attn.types import ExitStatus, UserError


def main(arguments: Sequence[str] | None = None) -> ExitStatus:
    """Write the report and print where it is."""
    parser = argparse.ArgumentParser(
        prog="python -m robust_attn.report",
        description="One self-contained report.html over every run below a folder, finished or not.",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="a folder that holds runs, for example multirun/…")
    folder: Path = parser.parse_args(arguments).folder
    try:
        print(write_sweep_report(folder))
    except (UserError, OSError) as problem:
        print(f"robust_attn.report: {problem}", file=sys.stderr)
        return ExitStatus.WRONG_CONFIGURATION
    return ExitStatus.OK


if __name__ == "__main__":
    sys.exit(main())
