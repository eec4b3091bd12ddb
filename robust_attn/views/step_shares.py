"""Which step of a model ends the certificate of its predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean

from robust_attn.records.kinds import PredictionRecord
from robust_attn.views.numerals import percent
from robust_attn.views.panel import Look, Panel, Role
from robust_attn.views.words import counted, largest

STEPS_DRAWN = 14
_WORDS = {"first": "first order", "second": "second order"}


def mean_shares(records: Sequence[PredictionRecord]) -> dict[str, float]:
    """Per step its part of all that is taken off the margin, as a mean over the samples, in the model's order.

    Samples whose parts are not all known are left out.
    """
    known = [parts for record in records if (parts := _parts(record.shares))]
    steps = dict.fromkeys(step for parts in known for step in parts)
    return {step: fmean(parts.get(step, 0.0) for parts in known) for step in steps}


def shares_panel(records: Sequence[PredictionRecord]) -> Panel | None:
    """A bar for each of the steps that take most, in the order of the model; None where no record tells."""
    shares = mean_shares(records)
    drawn = sorted(shares, key=lambda step: -shares[step])[:STEPS_DRAWN]
    names = [step for step in shares if step in drawn]
    if not names:
        return None
    told = counted(sum(bool(_parts(record.shares)) for record in records), "prediction")
    rest = sum(shares.values()) - sum(shares[step] for step in names)
    more = f" {len(shares) - len(names)} more steps take {percent(rest)} together." if len(shares) > len(names) else ""
    return Panel(
        "shares",
        "Which step ends the certificate",
        "step",
        "part of what is taken off the margin",
        {step_words(step): ((float(place), shares[step]),) for place, step in enumerate(names)},
        looks={step_words(step): Look(Role.CERTIFIED) for step in names},
        log_y=False,
        percent=True,
        bars=True,
        categories=tuple(map(step_words, names)),
        caption="What the error of each step takes off the margin at the certified radius, as a part of all that is "
        f"taken; mean over {told}. First and second order are the change itself; of the others the longest bar is "
        f"where a better bound would help most.{more}",
    )


def worst_step(records: Sequence[PredictionRecord]) -> str | None:
    """The step whose error takes most, with its part; None where no record tells.

    First and second order are the change itself, as far as it is known exactly, and no step's error.
    """
    shares = {step: part for step, part in mean_shares(records).items() if step not in _WORDS}
    most = largest(shares.values())
    return next((f"{step_words(step)} ({percent(part)})" for step, part in shares.items() if part == most), None)


def step_words(step: str) -> str:
    """A step as a reader knows it."""
    return _WORDS.get(step, step.replace("_", " ").replace(".", " "))


def _parts(shares: Mapping[str, float | None]) -> dict[str, float]:
    known = {step: share for step, share in shares.items() if share is not None and share >= 0}
    total = sum(known.values())
    return {step: share / total for step, share in known.items()} if total > 0 and len(known) == len(shares) else {}
