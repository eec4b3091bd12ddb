"""What a person sees while a run goes on, and the table at its end."""

from __future__ import annotations

import contextlib
import logging
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, Decimal
from typing import Any

from rich.console import Console
from rich.highlighter import NullHighlighter
from rich.markup import escape
from rich.table import Table

from robust_attn.report.certificates import CertificateRow, certificate_rows
from robust_attn.report.numerals import at_least, at_most
from robust_attn.views.panel import Panel

WIDTH = 140
COLOURS = {"HOLDS": "green", "VACUOUS": "yellow", "UNKNOWN": "magenta", "VIOLATED": "bold red"}


def console() -> Console:
    """Standard output; wide enough for the closing table where it is not a terminal with a width of its own."""
    return Console() if sys.stdout.isatty() else Console(width=WIDTH)


@contextlib.contextmanager
def debug_messages(screen: Console) -> Iterator[None]:
    """Show what this package logs, one line a record, above the bars if there are any."""
    from rich.logging import RichHandler

    logger = logging.getLogger("robust_attn")
    handler = RichHandler(
        console=screen, show_path=False, show_level=False, show_time=False, markup=False, highlighter=NullHighlighter()
    )
    level = logger.level
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def record_line(record: Mapping[str, Any]) -> str:
    """One record in one line: what it is about, what was observed, what is certified, and the verdict."""
    places = [
        f"{name} {record[name]}" for name in ("layer", "head", "sample", "tokens") if record.get(name) is not None
    ]
    observed, certified = record.get("observed") or {}, record.get("certified") or {}
    parts = [
        f"output moved {number(observed['output_change'])}" if observed.get("output_change") is not None else "",
        f"at most {upper(certified['output_change'])}" if certified.get("output_change") is not None else "",
        f"by {certified['bound']}" if certified.get("bound") else "",
        str(record.get("verdict", "")),
    ]
    return f"{', '.join(places)}: {' '.join(part for part in parts if part)}"


def closing_table(records: Sequence[dict[str, Any]]) -> Table:
    """One row per layer (and head): the sample with the largest tightness. All columns are per unit of input change."""
    table = Table(title="Output change per unit of input change, worst sample of each layer", title_justify="left")
    columns = ("layer", "tokens", "observed gain", "local Lipschitz", "paper's bound", "best certified", "by")
    for column in (*columns, "tightness", "verdict"):
        table.add_column(column, justify="left" if column in ("by", "verdict") else "right")
    for record in worst_samples(records):
        table.add_row(*_row(record))
    return table


def certificate_table(records: Sequence[dict[str, Any]]) -> Table:
    """One row per layer and head: what certificates are made of, and what they promise for all samples together.

    Certified changes are rounded up, certified radii down; where another bound gives the radius, it is named second.
    """
    rows = certificate_rows(records)
    asked = next((row.tolerance for row in rows if row.tolerance is not None), None)
    budget = records[0]["budget"]
    title = f"Certificates within {budget['kind']} {budget['radius']:g}, over all samples"
    table = Table(title=title, title_justify="left")
    columns = ["layer", "R", "|W_O W_V|", "|A|", "kappa", "c_n", "local\nLipschitz", "paper's\nbound", "moves\nat most"]
    columns += [] if asked is None else [f"radius\nfor {asked:g}"]
    for column in columns:
        table.add_column(column, justify="right")
    table.add_column("by", overflow="fold")
    table.add_column("verdict")
    for row in rows:
        table.add_row(*_certificate_cells(row, with_radius=asked is not None))
    return table


def lipschitz_table(fits: Sequence[dict[str, Any]], against: str) -> Table:
    """Per layer and estimator: the mean constant at each size, and the exponent with its 95 % interval over windows."""
    sizes = sorted({entry[against] for fit in fits for entry in fit["sizes"]})
    letter = "n" if against == "tokens" else "R"
    table = Table(title=f"Mean local Lipschitz constant against {letter}, by two estimators", title_justify="left")
    for column in ("layer", "fixed", "estimator", *(f"{letter} = {size:g}" for size in sizes), "exponent", "95 %"):
        table.add_column(column, justify="left" if column in ("fixed", "estimator") else "right")
    for fit in fits:
        head = "" if fit["head"] is None else f".{fit['head']}"
        fixed = _fixed(fit, against)
        for estimator, prefix in (("lipschitz", ""), ("released", "released_")):
            spread = {entry[against]: entry[estimator] for entry in fit["sizes"]}
            means = [number((spread.get(size) or {}).get("mean")) for size in sizes]
            exponent, interval = fit[f"{prefix}exponent"], fit[f"{prefix}interval"]
            table.add_row(f"{fit['layer']}{head}", fixed, estimator, *means, _hundredths(exponent), _between(interval))
    return table


def panel_table(panel: Panel) -> Table:
    """The numbers of a figure: one row per place on its axis, one column per line."""
    table = Table(title=f"{panel.title} ({panel.y_label})" if panel.y_label else panel.title, title_justify="left")
    for column in (panel.x_label, *panel.lines):
        table.add_column(escape(column), justify="right", overflow="fold")
    for x, values in panel.rows():
        table.add_row(f"{x:g}", *(number(value) for value in values))
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


def upper(value: float | None) -> str:
    """Four significant digits rounded up, or a dash: what is printed is an upper bound still."""
    if value is None or not math.isfinite(value) or value == 0:
        return number(value)
    step = Decimal(10) ** (math.floor(math.log10(abs(value))) - 3)
    return number(float((Decimal(value) / step).to_integral_value(ROUND_CEILING) * step))


def power_of_ten(log10: float | None) -> str:
    """An upper bound given by its logarithm, also where it overflows; rounded up."""
    if log10 is None:
        return "-"
    return upper(10**log10) if log10 < 300 else f"10^{math.ceil(log10) if log10 < 1e6 else upper(log10)}"


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


def _certificate_cells(row: CertificateRow, *, with_radius: bool) -> list[str]:
    constant = "-" if row.lower is None else f"{at_least(row.lower)} to {at_most(row.upper)}"
    winners = dict.fromkeys((row.bound or "-", *((row.radius_bound or "-",) if with_radius else ())))
    colour = COLOURS[row.verdict]
    return [
        row.place,
        *(number(value) for value in (row.radius, row.value, row.interaction, row.kappa, row.mixing)),
        constant,
        power_of_ten(row.paper_log10),
        at_most(row.certified),
        *([row.radius_shown] if with_radius else []),
        escape(", ".join(winners)),
        f"[{colour}]{row.verdict}[/{colour}]",
    ]


def _fixed(fit: dict[str, Any], against: str) -> str:
    if against != "tokens":
        return f"n = {fit['tokens']}"
    return "" if fit["scaled_to"] is None else f"R = {fit['scaled_to']:g}"


def _hundredths(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _between(interval: Sequence[float] | None) -> str:
    return "-" if interval is None else f"{interval[0]:.3f} to {interval[1]:.3f}"
