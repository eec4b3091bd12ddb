"""What a person sees while a run goes on, and the table at its end."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

WIDTH = 140
COLOURS = {"HOLDS": "green", "VACUOUS": "yellow", "UNKNOWN": "magenta", "VIOLATED": "bold red"}


def console() -> Console:
    """Standard output; wide enough for the closing table where it is not a terminal with a width of its own."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


def progress_bar(screen: Console) -> Progress:
    """A bar with the time left; silent where the output is not a terminal."""
    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        console=screen,
        transient=True,
        disable=not screen.is_terminal,
    )


def closing_table(records: Sequence[dict[str, Any]]) -> Table:
    """One row per layer (and head): the sample with the largest tightness. All columns are per unit of input change."""
    table = Table(title="Output change per unit of input change, worst sample of each layer", title_justify="left")
    columns = ("layer", "tokens", "observed gain", "local Lipschitz", "paper's bound", "best certified", "by")
    for column in (*columns, "tightness", "verdict"):
        table.add_column(column, justify="left" if column in ("by", "verdict") else "right")
    for record in worst_samples(records):
        table.add_row(*_row(record))
    return table


def lipschitz_table(records: Sequence[dict[str, Any]], exponents: Sequence[dict[str, Any]]) -> Table:
    """Mean local constant per layer and length, and the fitted exponent."""
    lengths = sorted({record["tokens"] for record in records})
    table = Table(title="Mean local Lipschitz constant against the number of tokens", title_justify="left")
    for column in ("layer", *(f"n = {length}" for length in lengths), "exponent"):
        table.add_column(column, justify="right")
    for entry in exponents:
        means = [_mean(records, entry["layer"], length) for length in lengths]
        table.add_row(str(entry["layer"]), *(number(mean) for mean in means), number(entry["exponent"]))
    return table


def worst_samples(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """For each layer and head the record nearest to its certificate; a bad verdict comes before any other."""
    order = {"VIOLATED": 3, "UNKNOWN": 2, "VACUOUS": 1, "HOLDS": 0}
    worst: dict[tuple[int, int], dict[str, Any]] = {}
    for record in records:
        key = (record["layer"], -1 if record["head"] is None else record["head"])
        rank = (order[record["verdict"]], record["tightness"] or 0.0)
        if key not in worst or rank > (order[worst[key]["verdict"]], worst[key]["tightness"] or 0.0):
            worst[key] = record
    return [worst[key] for key in sorted(worst)]


def number(value: float | None) -> str:
    """Four significant digits, or a dash."""
    return "-" if value is None or not math.isfinite(value) else f"{value:.4g}"


def power_of_ten(log10: float | None) -> str:
    """A constant given by its logarithm, also where it overflows."""
    if log10 is None:
        return "-"
    return number(10**log10) if log10 < 300 else f"10^{log10:.0f}"


def _row(record: dict[str, Any]) -> list[str]:
    bounds = {bound["name"]: bound for bound in record["bounds"]}
    certified = record["certified"]
    best = bounds.get(certified["bound"] or "", {}).get("log10")
    head = "" if record["head"] is None else f".{record['head']}"
    colour = COLOURS[record["verdict"]]
    return [
        f"{record['layer']}{head}",
        str(record["tokens"]),
        number(record.get("observed", {}).get("gain")),
        number(record["lipschitz"]["lower"]),
        power_of_ten(bounds.get("paper.discrete", {}).get("log10")),
        power_of_ten(best),
        escape(certified["bound"] or "-"),
        number(record["tightness"]),
        f"[{colour}]{record['verdict']}[/{colour}]",
    ]


def _mean(records: Sequence[dict[str, Any]], layer: int, length: int) -> float | None:
    values = [
        record["lipschitz"]["lower"]
        for record in records
        if record["layer"] == layer and record["tokens"] == length and record["lipschitz"]["lower"] is not None
    ]
    return sum(values) / len(values) if values else None
