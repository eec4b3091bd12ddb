"""report.md: the same findings for repositories and pull requests."""

import re
from collections.abc import Sequence

from robust_attn.report import facts
from robust_attn.report.chart import Chart
from robust_attn.report.findings import Findings
from robust_attn.report.numerals import at_least, at_most, percent, power_of_ten
from robust_attn.report.rows import LayerRow, Row


def markdown_text(findings: Findings, charts: Sequence[Chart]) -> str:
    """The findings as GitHub-flavoured Markdown."""
    run = findings.run
    notes = [note for note in (facts.state_note(run), facts.weights_note(run)) if note]
    parts = [
        f"# {escaped(findings.headline.title)}",
        *(f"> **{escaped(note)}**" for note in notes),
        escaped(findings.headline.detail),
        escaped(findings.promise),
        escaped(findings.confidence),
        *([_layer_table(findings.layers)] if findings.layers else []),
        *(f"![{escaped(chart.title)}](figures/{chart.name}.png)" for chart in charts),
        *([_ladder_table(findings.example)] if findings.example else []),
        f"Repeat it:\n\n{fenced(facts.command_of(run))}",
    ]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Text that Markdown and HTML leave as it is."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|#])", r"\\\1", " ".join(text.split()))


def fenced(code: str) -> str:
    """A code block whose fence is longer than any run of backticks inside it."""
    longest = max((len(run) for run in re.findall(r"`+", code)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}sh\n{code}\n{fence}"


def table(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A Markdown table; cells are escaped here."""
    lines = [head, ["---"] * len(head), *([escaped(cell) for cell in row] for row in body)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _layer_table(layers: Sequence[LayerRow]) -> str:
    head = ("layer", "output moves at most", "attack reached", "share", "certified by", "verdict")
    body = [
        (
            str(layer.layer),
            at_most(layer.certified),
            "—" if layer.observed is None else at_least(layer.observed),
            "—" if layer.tightness is None else percent(layer.tightness),
            layer.bound or "—",
            layer.verdict.value,
        )
        for layer in layers
    ]
    return table(head, body)


def _ladder_table(row: Row) -> str:
    body = [
        (
            rung.name,
            rung.side,
            power_of_ten(rung.log10) if rung.log10 is not None else f"does not apply: {rung.why_not}",
        )
        for rung in row.ladder
    ]
    head = ("bound", "side", "output change")
    return f"Every bound of layer {row.layer}, sample {row.sample}:\n\n{table(head, body)}"
