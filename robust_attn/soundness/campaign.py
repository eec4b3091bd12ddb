"""The campaign: case after case until so many are done or the time is over, and what all of them say together."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, zip_longest
from pathlib import Path
from typing import Any

from robust_attn.pipeline.jobs import Subject
from robust_attn.records.kinds import CarriedRecord, CaseRecord
from robust_attn.records.parts import BudgetPart
from robust_attn.records.store import load_run
from robust_attn.records.verdicts import worst_verdict
from robust_attn.soundness.case import Case
from robust_attn.soundness.check import check, reproducer, shrunk
from robust_attn.soundness.comparison import CERTIFICATE, Checked, Comparison
from robust_attn.soundness.drawing import drawn
from robust_attn.soundness.predictions import WholeCase, model_checked
from robust_attn.types import UserError, Verdict
from robust_attn.views.campaign import findings_of

DRAWN, WHOLE = Subject("random", "drawn", 0), Subject("random", "drawn", None)
SHRUNK_PER_BOUND = 2
"""Violations of one bound that are made smaller; the others of the same bound are saved as they are."""
Save = Callable[[str, dict[str, Any]], None]


@dataclass(frozen=True)
class Campaign:
    """Cases of the seeds from `first_seed` on: `cases` of them, or as many as begin within `minutes`, or both.

    `models` whole models, from seeds of their own (`first_model` on), take turns with them.
    """

    cases: int | None
    minutes: float | None
    first_seed: int
    models: int = 0
    first_model: int = 0

    def records(self, save: Save, *, clock: Callable[[], float] = time.monotonic) -> Iterator[CaseRecord]:
        """One record per case; violations go to `save` first, under a name of their own."""
        started, seen = clock(), Counter[str]()
        for case in self._drawn():
            if self.minutes is not None and clock() - started >= 60 * self.minutes:
                return
            if isinstance(case, WholeCase):
                yield model_record(case, save, clock=clock)
                continue
            begun = clock()
            checked = check(case)
            for violation in _worst_per_bound(checked.violations):
                name = f"seed-{case.seed}-{violation.bound}.json"
                save(name, _reproducer(case, violation, small=seen[violation.bound] < SHRUNK_PER_BOUND))
                seen[violation.bound] += 1
            yield case_record(case, checked, seconds=clock() - begun)

    def _drawn(self) -> Iterator[Case | WholeCase]:
        """A layer, a whole model, a layer, and so on; what there is more of goes on alone."""
        layers = count(self.first_seed) if self.cases is None else range(self.first_seed, self.first_seed + self.cases)
        models = range(self.first_model, self.first_model + self.models)
        for seed, model in zip_longest(layers, models):
            if seed is not None:
                yield drawn(seed)
            if model is not None:
                yield WholeCase(model)


def model_record(case: WholeCase, save: Save, *, clock: Callable[[], float] = time.monotonic) -> CaseRecord:
    """A whole model: every certificate of its prediction beside the nearest flip; violations go to `save` first."""
    begun = clock()
    found = model_checked(case)
    checked = found.checked
    for violation in _worst_per_bound(checked.violations):
        save(f"model-{case.model_seed}-{violation.bound}.json", reproducer(case, violation, drawn_from=case))
    return CaseRecord(
        **WHOLE.heading(0, found.tokens),
        seed=case.model_seed,
        verdict=_verdict(checked),
        attack="move",
        budget=BudgetPart(kind="frobenius", radius=found.radius),
        comparisons=len(checked.comparisons),
        violated=tuple(sorted({violation.bound for violation in checked.violations})),
        unknown=tuple(sorted(set(checked.unknown))),
        seconds=round(clock() - begun, 3),
        closest=_closest(checked),
        case={**case.plain(), **found.words},
    )


def _verdict(checked: Checked) -> Verdict:
    return Verdict.VIOLATED if checked.violations else Verdict.UNKNOWN if checked.unknown else Verdict.HOLDS


def _closest(checked: Checked) -> dict[str, float]:
    """By bound the nearest that an observation came to it."""
    closest: dict[str, float] = {}
    for comparison in checked.comparisons:
        closest[comparison.bound] = max(comparison.approach, closest.get(comparison.bound, 0.0))
    return dict(sorted(closest.items()))


def case_record(case: Case, checked: Checked, *, seconds: float) -> CaseRecord:
    """One line per case: what it was, how close each bound came, and the verdict.

    UNKNOWN where something was not finite, or drowned in rounding. Where that is the right answer (`Case.extreme`)
    `expected` says so: the case is counted and does not make the campaign fail. `exact` is the number of comparisons
    that exact arithmetic decided.
    """
    worst = _verdict(checked)
    return CaseRecord(
        **DRAWN.heading(0, case.tokens),
        seed=case.seed,
        verdict=worst,
        attack=case.attack,
        budget=BudgetPart(kind=case.budget, radius=case.radius),
        comparisons=len(checked.comparisons),
        exact=checked.exact,
        violated=tuple(sorted({violation.bound for violation in checked.violations})),
        unknown=tuple(sorted(set(checked.unknown))),
        expected=worst is Verdict.UNKNOWN and case.extreme,
        seconds=round(seconds, 3),
        closest=_closest(checked),
        case=case.plain(),
    )


def replayed(case: Case | WholeCase) -> CaseRecord:
    """A case that was saved, checked again."""
    if isinstance(case, WholeCase):
        return model_record(case, lambda *_: None)
    begun = time.monotonic()
    checked = check(case)
    return case_record(case, checked, seconds=time.monotonic() - begun)


def continued(folder: Path) -> CarriedRecord:
    """A first record that carries what an earlier campaign found, so that the next one speaks for both.

    Seeds are independent: going on means to begin with the seed after the last one that was finished.
    """
    records = [record for record in load_run(folder).records if isinstance(record, CaseRecord | CarriedRecord)]
    if not records:
        raise UserError(f"{folder} holds no finished case of a soundness campaign.")
    worst = worst_verdict(record.judged for record in records)
    return CarriedRecord(
        **DRAWN.heading(0, 0),
        continues=folder.name,
        verdict=worst or Verdict.HOLDS,
        carried=findings_of(records),
    )


def _worst_per_bound(violations: Sequence[Comparison]) -> list[Comparison]:
    """The certificate is the smallest of the bounds: it needs no reproducer of its own where one of them has one."""
    worst: dict[str, Comparison] = {}
    for violation in violations:
        if violation.bound not in worst or violation.approach > worst[violation.bound].approach:
            worst[violation.bound] = violation
    return [violation for name, violation in worst.items() if name != CERTIFICATE or len(worst) == 1]


def _reproducer(case: Case, violation: Comparison, *, small: bool) -> dict[str, Any]:
    smallest, shown = shrunk(case, violation) if small else (case, violation)
    return reproducer(smallest, shown, drawn_from=case)
