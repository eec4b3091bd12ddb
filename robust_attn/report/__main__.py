"""`python -m robust_attn.report DIR`: one report over every run below DIR; with --compare one over a pair of runs."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from robust_attn.records.conditions import conditions_from
from robust_attn.report.many import outcomes_below, write_sweep_report
from robust_attn.types import ExitStatus, UserError


def main(arguments: Sequence[str] | None = None) -> ExitStatus:
    """Write the report and print where it is; the status is that of the conditions, where there are any."""
    asked = _parser().parse_args(arguments)
    try:
        return _compared(asked) if asked.compare else _reported(asked)
    except (UserError, OSError) as problem:
        return _told(str(problem), ExitStatus.WRONG_CONFIGURATION)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m robust_attn.report",
        description="One self-contained report.html over every run below a folder, finished or not; or, with "
        "--compare, one over two runs, paired by sample.",
    )
    where = "a folder that holds runs, for example multirun/…; with --compare two folders of one run each"
    parser.add_argument("folders", metavar="DIR", type=Path, nargs="+", help=where)
    parser.add_argument("--compare", action="store_true", help="put two runs side by side, the first as the reference")
    parser.add_argument("--to", metavar="DIR", type=Path, help="where compare.html goes (the folder of the second run)")
    parser.add_argument(
        "--fail-if",
        metavar="CONDITION",
        action="append",
        default=[],
        help="exit status 4 where it holds, such as 'certified_radius<0.001'; may be given several times",
    )
    return parser


def _reported(asked: argparse.Namespace) -> ExitStatus:
    conditions = conditions_from(asked.fail_if)
    if len(asked.folders) != 1 or asked.to is not None:
        raise UserError("expected one folder that holds runs, or two folders of one run each with --compare.")
    (folder,) = asked.folders
    print(write_sweep_report(folder, conditions))
    outcomes = outcomes_below(folder, conditions) if conditions else []
    for message in dict.fromkeys(outcome.message for outcome in outcomes if outcome.message):
        _told(message, ExitStatus.FAIL_IF)
    return ExitStatus.worst([outcome.status for outcome in outcomes])


def _compared(asked: argparse.Namespace) -> ExitStatus:
    from robust_attn.report.compare import write_comparison

    if len(asked.folders) != 2 or asked.fail_if:
        raise UserError("--compare takes two folders, each of one run, and no condition.")
    first, second = asked.folders
    print(write_comparison(first, second, asked.to))
    return ExitStatus.OK


def _told(sentence: str, status: ExitStatus) -> ExitStatus:
    print(f"robust_attn.report: {sentence}", file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
