"""report.md of a sweep: the comparison for repositories and pull requests."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from robust_attn.report.by_setting import ByValue
from robust_attn.report.chart import Chart
from robust_attn.report.markdown import escaped, table
from robust_attn.report.numerals import at_least, at_most, percent, plain
from robust_attn.report.split_gain import SplitGain
from robust_attn.report.sweep_run import SweepRun
from robust_attn.report.trends import Trend
from robust_attn.report.words import Headline

if TYPE_CHECKING:
    from robust_attn.report.sweep import Sweep

RUNS_LISTED = 200
_ABSENT = "—"


def sweep_markdown(sweep: "Sweep", headline: Headline, charts: Sequence[Chart], notes: Sequence[str]) -> str:
    """The findings of a sweep as GitHub-flavoured Markdown."""
    left_out = len(sweep.runs) - RUNS_LISTED
    parts = [
        f"# {escaped(headline.title)}",
        *(f"> **{escaped(note)}**" for note in notes),
        escaped(headline.detail),
        _run_table(sweep.runs[:RUNS_LISTED], sweep.keys),
        *([f"{left_out} further runs are left out here."] if left_out > 0 else []),
        *([f"Best and worst, setting by setting:\n\n{_value_table(sweep.values)}"] if sweep.values else []),
        *([f"W2 gain of splitting over that of moving:\n\n{_split_table(sweep.splits)}"] if sweep.splits else []),
        *([f"Exponents of fitted power laws:\n\n{_trend_table(sweep.trends)}"] if sweep.trends else []),
        *(f"![{escaped(chart.title)}](figures/{chart.name}.png)" for chart in charts),
    ]
    return "\n\n".join(parts) + "\n"


def _run_table(runs: Sequence[SweepRun], keys: Sequence[str]) -> str:
    head = ("run", *map(escaped, keys), "status", "largest gain", "observed", "certified", "tightness", "verdicts")
    body = [
        (
            run.label,
            *(run.settings[key] for key in keys),
            run.status + (f": {run.message}" if run.message else ""),
            _ABSENT if run.gain is None else at_least(run.gain),
            _ABSENT if run.observed is None else at_least(run.observed),
            _ABSENT if run.certified is None else at_most(run.certified),
            _ABSENT if run.tightness is None else percent(run.tightness),
            ", ".join(f"{count} {verdict.value}" for verdict, count in run.counts.items() if count) or _ABSENT,
        )
        for run in runs
    ]
    return table(head, body)


def _value_table(values: Sequence[ByValue]) -> str:
    def span(pair: tuple[float, float] | None) -> str:
        return _ABSENT if pair is None else f"{at_least(pair[0])} to {at_least(pair[1])}"

    head = ("setting", "value", "runs", "gain", "share of the promise reached", "local constant")
    body = [
        (line.key, line.value, str(line.runs), span(line.gain), span(line.tightness), span(line.lipschitz))
        for line in values
    ]
    return table(head, body)


def _split_table(splits: Sequence[SplitGain]) -> str:
    body = [
        (
            gain.group,
            str(gain.layer),
            str(gain.pairs),
            *(plain(v, 5) for v in (gain.smallest, gain.typical, gain.largest)),
        )
        for gain in splits
    ]
    return table(("runs with", "layer", "pairs", "smallest", "geometric mean", "largest"), body)


def _trend_table(trends: Sequence[Trend]) -> str:
    body = [
        (trend.quantity, trend.key, trend.group, plain(trend.exponent), plain(trend.standard_error, 2))
        for trend in trends
    ]
    return table(("quantity", "against", "runs with", "exponent", "standard error"), body)
