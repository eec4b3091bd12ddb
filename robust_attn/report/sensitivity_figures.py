"""Local Lipschitz constants against the number of tokens."""

from collections.abc import Sequence

from robust_attn.report.chart import INK, SERIES, Chart, Tips, canvas, house_style, log_axis
from robust_attn.report.numerals import at_least, plain
from robust_attn.report.sensitivity import Growth

_MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<")


def lengths_chart(growth: Sequence[Growth]) -> Chart | None:
    """The mean constant of each layer against the number of tokens, where there are several lengths."""
    known = [line for line in growth if len(line.means) > 1]
    if not known:
        return None
    drawn = known[: len(SERIES)]
    with house_style():
        figure, axes = canvas()
        tips = Tips()
        for colour, marker, line in zip(SERIES, _MARKERS, drawn, strict=False):
            name = line.name
            label = name if line.exponent is None else f"{name}, exponent {plain(line.exponent, 2)}"
            axes.plot(list(line.means), list(line.means.values()), color=colour, lw=1.6, label=label)
            for tokens, value in line.means.items():
                tip = tips.mark(f"{name}, {tokens} tokens: {at_least(value)}")
                axes.plot([tokens], [value], color=colour, marker=marker, ms=5, gid=tip)
        log_axis(axes, "x", at={tokens for line in drawn for tokens in line.means})
        log_axis(axes, "y")
        axes.set(xlabel="tokens", ylabel="mean local Lipschitz constant")
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), labelcolor=INK)
    many = f" The first {len(drawn)} of {len(known)} lines are drawn." if len(known) > len(drawn) else ""
    caption = (
        "How much a layer amplifies a tiny change, against the length of its input; mean over the samples of each "
        f"length. Both axes are logarithmic, so a power law is a straight line and its exponent the slope.{many}"
    )
    return Chart("lengths", "Sensitivity against length", caption, _description(drawn), figure, tips)


def _description(growth: Sequence[Growth]) -> str:
    def values(line: Growth) -> str:
        return ", ".join(f"{at_least(mean)} at {tokens} tokens" for tokens, mean in line.means.items())

    return "; ".join(f"{line.name}: {values(line)}" for line in growth)
