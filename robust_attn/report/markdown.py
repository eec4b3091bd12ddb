"""report.md: the same findings for repositories and pull requests."""

import re
from collections.abc import Sequence

from robust_attn.report import facts
from robust_attn.report.certificates import CertificateRow
from robust_attn.report.chart import Chart
from robust_attn.report.findings import Findings
from robust_attn.report.generic import GenericTable
from robust_attn.report.numerals import at_least, at_most, percent, plain, power_of_ten
from robust_attn.report.passages import Passages
from robust_attn.report.rows import LayerRow, Row, place_of
from robust_attn.report.sensitivity import Growth


def markdown_text(findings: Findings, charts: Sequence[Chart]) -> str:
    """The findings as GitHub-flavoured Markdown."""
    run = findings.run
    notes = [note for note in (facts.state_note(run), facts.weights_note(run)) if note]
    parts = [
        f"# {escaped(findings.statement.headline.title)}",
        *(f"> **{escaped(note)}**" for note in notes),
        escaped(findings.statement.headline.detail),
        *(escaped(promise) for promise in findings.promises),
        *([escaped(findings.statement.confidence)] if findings.statement.confidence else []),
        *([_layer_table(findings.layers)] if findings.layers else []),
        *([_passage_table(findings.passages)] if findings.passages.by_layer else []),
        *([_certificate_table(findings.certificates)] if findings.certificates else []),
        *([_search_table(findings.searches)] if findings.searches else []),
        *([_growth_table(findings.growth)] if findings.growth else []),
        *(_generic_table(found) for found in findings.others),
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
    head = ("layer", "output moves at most", "certified by", "worst sample", "its promise", "attack reached", "share")
    body = [
        (
            str(layer.layer),
            at_most(layer.certified),
            layer.bound or "—",
            "—" if layer.worst.sample is None else str(layer.worst.sample),
            at_most(layer.worst.certified),
            "—" if layer.worst.observed is None else at_least(layer.worst.observed),
            "—" if layer.worst.tightness is None else percent(layer.worst.tightness),
            layer.verdict.value,
        )
        for layer in layers
    ]
    return table((*head, "verdict"), body)


def _passage_table(passages: Passages) -> str:
    """The tokens that moved most, a line per layer and sample shown."""
    body = [
        (
            str(passage.layer),
            str(passage.sample),
            ", ".join(f"{token.text} {at_least(token.rms)} {token.mark}".strip() for token in passage.most) or "—",
        )
        for passage in passages.every
    ]
    return f"Tokens that moved most, by how much:\n\n{table(('layer', 'sample', 'tokens'), body)}"


def _certificate_table(rows: Sequence[CertificateRow]) -> str:
    asked = next((row.tolerance for row in rows if row.tolerance is not None), None)
    head = ["layer.head", "R", "norm of V", "norm of A", "kappa", "c_n", "local Lipschitz", "changes at most", "by"]
    body = [
        [
            row.place,
            *(plain(value) for value in (row.radius, row.value, row.interaction, row.kappa, row.mixing)),
            f"{at_least(row.lower)} to {at_most(row.upper)}",
            at_most(row.certified),
            row.bound or "—",
            *([row.radius_shown, row.radius_bound or "—"] if asked is not None else []),
            row.verdict.value,
        ]
        for row in rows
    ]
    head += [f"radius that keeps {plain(asked)}", "by"] if asked is not None else []
    return f"Layers and heads, over all samples:\n\n{table([escaped(name) for name in head] + ['verdict'], body)}"


def _search_table(rows: Sequence[Row]) -> str:
    head = ("layer", "tokens", "gain at most", "proved by", "search found", "share", "verdict")
    body = [
        (
            str(row.layer),
            str(row.tokens),
            at_most(row.certified),
            row.bound or "—",
            at_least(row.gain),
            percent(row.tightness),
            row.verdict.value,
        )
        for row in rows
    ]
    return table(head, body)


def _growth_table(growth: Sequence[Growth]) -> str:
    lengths = sorted({length for line in growth for length in line.means})
    body = [
        (
            line.name,
            *(plain(line.means.get(length), 4) for length in lengths),
            "—" if line.exponent is None else plain(line.exponent),
        )
        for line in growth
    ]
    head = ("layer", *(f"{length} tokens" for length in lengths), "exponent")
    return f"Mean local Lipschitz constant:\n\n{table(head, body)}"


def _generic_table(found: GenericTable) -> str:
    shared = ", ".join(f"{key} {value}" for key, value in found.shared.items())
    title = f"Records of the task “{found.task}”{', all with ' + shared if shared else ''}:"
    body = [[cell.shown for cell in line] for line in found.lines]
    return f"{escaped(title)}\n\n{table([escaped(name) for name in found.columns], body)}" if body else escaped(title)


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
    return f"Every bound of {place_of(row)}:\n\n{table(head, body)}"
