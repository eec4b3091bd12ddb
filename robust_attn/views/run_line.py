"""One run as a line of a comparison: what was set, and the worst that was found."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from robust_attn.records import kinds
from robust_attn.records.kinds import of_kind
from robust_attn.records.store import Run
from robust_attn.records.verdicts import verdict_counts, worst_verdict
from robust_attn.types import Verdict
from robust_attn.views import facts
from robust_attn.views.layers import verdict_of
from robust_attn.views.numerals import UNKNOWN
from robust_attn.views.predictions import was_flipped
from robust_attn.views.words import covering, largest, smallest

UNSTATED = "—"
"""A setting that a run does not tell, for instance because it ended before its weights were known."""
REPEATED = ("seed", "certificate.seed")
"""Settings that repeat a run rather than change what it is about: nothing is drawn or fitted against them."""
NOT_COMPARED = ("tracker", "fail_if")
"""Settings, with all below them, that change nothing about the numbers of a run."""
_SUMMARY_KEYS = ("task", "model", "weights", "attack", "budget", "tokens", "samples")


@dataclass(frozen=True)
class RunLine:
    """`lipschitz` is set for runs that only measured or searched, `flipped` for those that attacked predictions."""

    run: Run
    label: str
    settings: dict[str, str]
    budget: str
    message: str
    observed: float | None
    gain: float | None
    certified: float | None
    tightness: float | None
    lipschitz: float | None
    flips: tuple[int, int] | None
    flip_radius: float | None
    verdicts: tuple[Verdict, ...]

    @property
    def counts(self) -> dict[Verdict, int]:
        """How often each verdict was given."""
        return verdict_counts(self.verdicts)

    @property
    def verdict(self) -> Verdict | None:
        """The worst of them."""
        return worst_verdict(self.verdicts)

    @property
    def complete(self) -> bool:
        """Whether the run says that it came to its end."""
        return self.run.status == "complete"

    @property
    def task(self) -> str:
        """What the run did."""
        return task_of(self.run)

    @property
    def family(self) -> tuple[str, frozenset[str]]:
        """Its task and the names of what was typed: runs that share both differ as the jobs of a sweep do."""
        return self.task, frozenset(_typed(self.run))

    @property
    def typed(self) -> str:
        """What was typed for this run and differs from others, as a label."""
        typed = _typed(self.run)
        return ", ".join(f"{key}={typed[key]}" for key in self.settings if key in typed)

    def without(self, *keys: str) -> str:
        """Its settings other than these and those that only repeat runs, as a label."""
        return settings_label(self.settings, (*keys, *REPEATED)) or "all runs"


def settings_label(settings: Mapping[str, str], without: Collection[str] = ()) -> str:
    """Those settings that a run tells, but for some, as a label."""
    return ", ".join(f"{key}={value}" for key, value in settings.items() if value != UNSTATED and key not in without)


def run_lines(top: Path, runs: Sequence[Run]) -> tuple[RunLine, ...]:
    """The runs with the settings in which they differ."""
    keys = swept_keys(runs)
    return tuple(_line(top, run, keys) for run in runs)


def task_of(run: Run) -> str:
    """The name of the task of a run, or that it is unknown: a run that was killed may not tell."""
    return run.task or UNKNOWN


def families(lines: Sequence[RunLine]) -> tuple[tuple[RunLine, ...], ...]:
    """Runs that differ as the jobs of one sweep do, together; runs without a companion are in none."""
    found: dict[tuple[str, frozenset[str]], list[RunLine]] = {}
    for line in lines:
        found.setdefault(line.family, []).append(line)
    return tuple(tuple(some) for some in found.values() if len(some) > 1)


def swept_in(family: Sequence[RunLine]) -> tuple[str, ...]:
    """The settings that were typed for all of these runs, with different values; none that only repeat runs."""
    typed = [_typed(line.run) for line in family]
    names = [key for key in typed[0] if key in family[0].settings and key not in REPEATED]
    return tuple(key for key in names if len({given[key] for given in typed}) > 1)


def swept_keys(runs: Sequence[Run]) -> tuple[str, ...]:
    """Settings that differ between runs: those given on the command line, and those that every summary states."""
    given = [key for run in runs for key in _typed(run)]
    candidates = dict.fromkeys([*given, *_SUMMARY_KEYS])
    values = {key: {setting(run, key) for run in runs} for key in candidates}
    differing = [key for key in candidates if len(values[key] - (set() if key in given else {UNSTATED})) > 1]
    # Columns that only repeat others: the budget beside its radius, the weights that come with a model.
    implied = {"budget"} if any(key.startswith("budget.") for key in differing) else set()
    implied |= {"weights"} if "model" in differing and "model.weights" not in given else set()
    return tuple(key for key in differing if key not in implied)


def setting(run: Run, key: str) -> str:
    """The value of a setting in a run: as given, as recorded, or from the composed configuration."""
    given = _typed(run).get(key)
    if given is not None:
        return given
    recorded = facts.fact(run, key)
    return facts.flattened(run.config).get(key, UNSTATED) if recorded is None else facts.text_of(recorded)


def _typed(run: Run) -> dict[str, str]:
    """What was typed, by name, but for what changes no number."""
    pairs = (item.partition("=") for item in facts.overrides_of(run) if "=" in item)
    given = {key.lstrip("+~"): value for key, _, value in pairs}
    return {key: value for key, value in given.items() if key.partition(".")[0] not in NOT_COMPARED}


def _line(top: Path, run: Run, keys: Sequence[str]) -> RunLine:
    layers: list[kinds.Check] = of_kind(run.records, kinds.AttackRecord, kinds.CertifyRecord, kinds.TightnessRecord)
    attacked = [record for record in layers if record.attacked]
    way, constants = of_kind(run.records, kinds.LayerRecord), of_kind(run.records, kinds.ConstantRecord)
    balls = of_kind(run.records, kinds.BallRecord)
    promises = (kinds.Check, kinds.BallRecord)  # UNKNOWN where what is promised is not known
    judged = [verdict_of(record) if isinstance(record, promises) else record.judged for record in run.records]
    relative = run.folder.relative_to(top).as_posix()
    return RunLine(
        run=run,
        label=run.folder.resolve().name if relative == "." else relative,
        settings={key: setting(run, key) for key in keys},
        budget=layers[0].budget.kind if layers else "",
        message=str((run.summary or {}).get("message") or "")[:300],
        observed=largest(record.observed.output_change for record in attacked),
        gain=largest(record.observed.gain for record in attacked),
        certified=covering(record.certified.output_change for record in layers if record.head is None),
        tightness=largest([*(r.tightness for r in (*attacked, *way)), *(r.tightness for r in balls)]),
        lipschitz=largest([*(r.lipschitz.lower for r in balls), *(r.lipschitz.lower for r in constants)]),
        flips=_flips(run.records),
        flip_radius=smallest(record.smallest_flip for record in of_kind(run.records, kinds.PredictionRecord)),
        verdicts=tuple(verdict for verdict in judged if verdict is not None),
    )


def _flips(records: Sequence[kinds.Record]) -> tuple[int, int] | None:
    """How many predictions were flipped, of how many."""
    outcomes = {record.sample: was_flipped(record) for record in of_kind(records, kinds.PredictionRecord)}
    for record in of_kind(records, kinds.RepeatRecord):
        outcomes[record.sample] = outcomes.get(record.sample, False) or record.flipped
    return (sum(outcomes.values()), len(outcomes)) if outcomes else None
