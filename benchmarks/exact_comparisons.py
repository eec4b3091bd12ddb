"""Every public certificate beside the change that interval arithmetic with sixty digits finds.

    python -m benchmarks.exact_comparisons --comparisons 100000 --first-seed 0
    python -m benchmarks.exact_comparisons --known
    python -m benchmarks.exact_comparisons --seed 17

Small random cases (`exact_draws`), perturbations found by a cheap ascent (`exact_ascent`), both handed to the public
functions as they are, and judged by `robust_attn.soundness.exact`: a comparison is one bound and one perturbation that
is inside the budget beyond doubt, and a violation one whose exact change is above the bound beyond doubt. Constants at
the tokens are compared with the exact derivative in one direction. A certificate that is not a number, or that was
refused, is unknown: counted and not compared. `closest` is the largest exact change over what was certified.
Exit status 3 if there is any violation, 1 if a function raised an error that is not meant for a user.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from benchmarks.exact_ascent import Replica, Search, replica_of
from benchmarks.exact_draws import Case, drawn, known
from benchmarks.measuring import print_table
from robust_attn.attention.measure import TokenMeasure, stack
from robust_attn.bounds.bound import Bound
from robust_attn.budget import Budget, Wasserstein
from robust_attn.certificates.layer import Certificate, certify
from robust_attn.certificates.measures import certify_measures
from robust_attn.certificates.radius import certified_radius
from robust_attn.soundness.comparison import CERTIFICATE
from robust_attn.soundness.exact import ExactChange, Judge, constant_lower
from robust_attn.soundness.reference import Reference
from robust_attn.spectral.lipschitz import local_lipschitz, split_lipschitz
from robust_attn.types import Scope, Side, UserError

FIELDS = 3
"""Displacements judged for each certificate, beside the singular direction."""
SLIVERS = 2
FARTHEST = 1e6
"""Times the size of the tokens: how far an attack goes where a radius was certified that has no end."""
BELOW = 1 - 1e-15
"""What two products of floats may have added."""
VIOLATED, RAISED = 3, 1
SHOWN = 60


@dataclass(frozen=True)
class Comparison:
    """What a function allows, by one of its bounds, and a number that the exact change is not below."""

    function: str
    bound: str
    certified: float
    exact: float

    @property
    def violated(self) -> bool:
        return self.exact > self.certified

    @property
    def approach(self) -> float:
        return self.exact / self.certified if self.certified > 0 else math.inf if self.exact > 0 else 0.0


@dataclass(frozen=True)
class Unknown:
    """A certificate that promises nothing, and why; `raised` if that is an error that says nothing to a user."""

    function: str
    bound: str
    reason: str
    raised: bool = False


Found = Iterator[Comparison | Unknown]


@dataclass(frozen=True, eq=False)
class Subject:
    """A case with what its perturbations and their judgement need, made once and only if needed."""

    case: Case

    @cached_property
    def base(self) -> TokenMeasure:
        return self.case.measure.to(torch.float64)

    @cached_property
    def reference(self) -> Reference:
        return Reference.of(self.case.layer, self.base)

    @cached_property
    def replica(self) -> Replica:
        return replica_of(self.reference)

    @cached_property
    def draw(self) -> np.random.Generator:
        return np.random.default_rng(self.case.seed)

    def moved(self, budget: Budget) -> list[float]:
        """Exact changes by displacements of whole tokens, those that are inside."""
        judge, search = Judge(self.reference, self.base, budget), Search.of(self.replica, budget)
        return _inside([judge.by(torch.from_numpy(field)) for field in search.fields(self.draw, FIELDS)])

    def split(self, budget: Budget) -> list[float]:
        """Exact changes by slivers and by halves of tokens."""
        judge, search = Judge(self.reference, self.base, budget), Search.of(self.replica, budget)
        found = [*search.slivers(self.draw, SLIVERS), *search.copies(self.draw, 1)]
        return _inside([judge.slivers(slivers) for slivers in found])

    def slopes(self, weights: Tensor) -> list[float]:
        """The exact derivative in the singular direction and in a random one, in the norm with these weights."""
        search = Search(self.replica, weights.numpy(), 1.0, math.inf, False)
        return self._slopes(self.reference, search, weights)

    def split_slopes(self, weights: Tensor) -> list[float]:
        """The same once every token is two halves."""
        owners = [index for index in range(self.base.length) for _ in range(2)]
        halves = self.reference.split(owners, [Fraction(1, 2)] * len(owners))
        replica = self.replica.pieces(owners)
        search = Search(replace(replica, masses=replica.masses / 2), weights[owners].numpy(), 1.0, math.inf, False)
        return self._slopes(halves, search, weights[owners])

    def _slopes(self, reference: Reference, search: Search, weights: Tensor) -> list[float]:
        with np.errstate(all="ignore"):
            directions = [search.singular()[0], self.draw.standard_normal(search.replica.tokens.shape)]
        return [constant_lower(reference, torch.from_numpy(each), weights) for each in directions]


def _inside(changes: list[ExactChange]) -> list[float]:
    return [change.output_lower for change in changes if change.inside and not math.isnan(change.output_lower)]


def compared(case: Case) -> Found:
    """Every comparison that a case allows. What a function raises is a reason to know nothing."""
    subject = Subject(case)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = list(COMPARISONS[case.function](subject))
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())[:90]}"
        found = [Unknown(case.function, CERTIFICATE, reason, raised=not isinstance(error, UserError | ValueError))]
    return iter(found)


def _certified(subject: Subject) -> Found:
    case = subject.case
    certificate = certify(case.layer, case.measure, case.budget, deterministic="deterministic" in case.function)
    if math.isnan(certificate.output_change):
        yield Unknown(case.function, CERTIFICATE, "not a number")
        return
    yield from _bounds(case.function, certificate, subject.moved(case.budget))
    local = [bound for bound in certificate.bounds if bound.scope is Scope.LOCAL and not bound.comparator]
    radius = case.budget.hilbert_radius(subject.base)
    for slope in subject.slopes(case.budget.weights(subject.base)) if local else []:
        for bound in local:
            yield Comparison(case.function, bound.name, bound.output_change, slope * radius * BELOW)


def _bounds(function: str, certificate: Certificate, changes: list[float]) -> Found:
    """The certificate itself where it is none of its bounds, and every bound that may certify."""
    for bound in certificate.bounds:
        if _speaks(bound) and not bound.certifies:
            yield Unknown(function, bound.name, f"{bound.name} is {bound.output_change}")
    own = [certificate.output_change] if certificate.bound is None else []
    for change in changes:
        yield from (Comparison(function, CERTIFICATE, value, change) for value in own)
        for bound in certificate.bounds:
            if bound.certifies:
                value = bound.output_change
                if bound.name == certificate.bound:
                    value = min(value, certificate.output_change)
                yield Comparison(function, bound.name, value, change)


def _speaks(bound: Bound) -> bool:
    return bound.applies and bound.side is Side.UPPER and not bound.comparator


def _radius(subject: Subject) -> Found:
    case = subject.case
    chance = {"deterministic": "deterministic" in case.function}
    found = certified_radius(case.layer, case.measure, type(case.budget), case.tolerance, **chance)
    if math.isnan(found.radius):
        yield Unknown(case.function, CERTIFICATE, "not a number")
        return
    radius = min(found.radius, FARTHEST * (float(subject.base.radius) or 1.0))
    for change in subject.moved(type(case.budget)(radius)) if radius > 0 else []:
        yield Comparison(case.function, found.bound or CERTIFICATE, case.tolerance, change)


def _measures(subject: Subject) -> Found:
    case = subject.case
    assert isinstance(case.budget, Wasserstein)
    certificate = certify_measures(case.layer, _batch(case), case.budget).samples[0]
    if case.budget.support is None:
        yield Unknown(case.function, CERTIFICATE, "a certificate without a support")
    elif math.isnan(certificate.output_change):
        yield Unknown(case.function, CERTIFICATE, "not a number")
    else:
        yield from _bounds(case.function, certificate, subject.split(case.budget))


def _constant(subject: Subject) -> Found:
    """The local constant, with the masses as weights or with others."""
    case = subject.case
    weights = subject.base.masses if case.weights is None else case.weights
    batch = _batch(case)
    given = None if case.weights is None else case.weights.to(batch.points.dtype).expand(batch.masses.shape)
    exact = weights if given is None else given[0].double()
    function = local_lipschitz if case.function == "local_lipschitz" else split_lipschitz
    upper = float(function(case.layer, batch, weights=given).upper[0])
    if not math.isfinite(upper):
        yield Unknown(case.function, "upper", f"upper is {upper}")
        return
    slopes = subject.slopes(exact)
    if function is split_lipschitz:
        slopes += subject.split_slopes(exact)
    yield from (Comparison(case.function, "upper", upper, slope) for slope in slopes)


def _batch(case: Case) -> TokenMeasure:
    """The case's measure first, and for odd seeds another one beside it, which must not matter."""
    others = [case.measure.with_points(-case.measure.points)] if case.seed % 2 else []
    return stack([case.measure, *others])


COMPARISONS: dict[str, Callable[[Subject], Found]] = {
    "certify": _certified,
    "certify deterministic": _certified,
    "certified_radius": _radius,
    "certified_radius deterministic": _radius,
    "certify_measures": _measures,
    "local_lipschitz": _constant,
    "split_lipschitz": _constant,
}


@dataclass
class Line:
    """A row of the table."""

    comparisons: int = 0
    unknown: int = 0
    violations: int = 0
    closest: float = 0.0


@dataclass
class Tally:
    """What was counted so far."""

    cases: int = 0
    lines: dict[tuple[str, str], Line] = field(default_factory=lambda: defaultdict(Line))
    reasons: Counter[str] = field(default_factory=Counter)
    violations: list[tuple[Case, Comparison]] = field(default_factory=list)
    raised: list[tuple[Case, Unknown]] = field(default_factory=list)

    @property
    def status(self) -> int:
        return VIOLATED if self.violations else RAISED if self.raised else 0

    @property
    def comparisons(self) -> int:
        return sum(line.comparisons for line in self.lines.values())

    def add(self, case: Case) -> None:
        self.cases += 1
        for each in compared(case):
            line = self.lines[each.function, each.bound]
            if isinstance(each, Unknown):
                line.unknown += 1
                self.reasons[f"{each.function}: {each.reason}"] += 1
                if each.raised:
                    self.raised.append((case, each))
                continue
            line.comparisons += 1
            line.closest = max(line.closest, each.approach)
            if each.violated:
                line.violations += 1
                self.violations.append((case, each))

    def show(self, seconds: float) -> None:
        rows = [
            [function, bound, line.comparisons, line.unknown, line.violations, f"{line.closest:.14g}"]
            for (function, bound), line in sorted(self.lines.items())
        ]
        print_table(["function", "bound", "comparisons", "unknown", "violations", "closest"], rows)
        total = self.comparisons
        unknown = sum(line.unknown for line in self.lines.values())
        print(f"{total} comparisons of {self.cases} cases, {unknown} unknown, {len(self.violations)} violations")
        print(f"{seconds:.0f} s, {60 * total / max(seconds, 1e-9):.0f} comparisons a minute")
        for reason, count in self.reasons.most_common(25):
            print(f"  unknown {count:6d}  {reason}")
        for case, one in self.raised[:SHOWN]:
            print(f"RAISED {case.name} [{case.kind}] {one.function}: {one.reason}")
        by_case: dict[str, list[tuple[Case, Comparison]]] = defaultdict(list)
        for case, each in self.violations:
            by_case[case.name].append((case, each))
        for found in list(by_case.values())[:SHOWN]:
            case = found[0][0]
            again = f"--seed {case.seed}" if case.kind else "--known"
            print(f"VIOLATED {case.name} [{case.kind}] {case.budget}: python -m benchmarks.exact_comparisons {again}")
            for each in strongest([each for _, each in found]):
                print(f"    {each.function} {each.bound}: certified {each.certified:.6g}, exact {each.exact:.6g}")
        if len(by_case) > SHOWN:
            print(f"and {len(by_case) - SHOWN} cases more")


def describe(case: Case) -> None:
    """One case with its numbers, so that it can be typed in."""
    layer, measure = case.layer, case.measure
    print(f"{case.name}: {case.function}, {case.kind}, {case.budget}, tolerance {case.tolerance!r}")
    print(f"  scale {layer.scale!r}, {layer.mask}, rotary {layer.rotary}, {layer.dtype}")
    if layer.query.numel() <= 64:
        for name in ("query", "query_bias", "key", "key_bias", "value", "output"):
            print(f"  {name} {getattr(layer, name).tolist()}")
        print(f"  points {measure.points.tolist()}, {measure.points.dtype}, masses {measure.masses.tolist()}")
    found = list(compared(case))
    for unknown in (each for each in found if isinstance(each, Unknown)):
        print(f"  {unknown.bound}: unknown, {unknown.reason}")
    for each in strongest([each for each in found if isinstance(each, Comparison)]):
        verdict = "VIOLATED" if each.violated else "holds"
        print(f"  {each.bound}: certified {each.certified:.10g}, exact {each.exact:.10g}, {verdict}")


def strongest(comparisons: list[Comparison]) -> list[Comparison]:
    """Of every bound the comparison with the largest change."""
    found: dict[tuple[str, str], Comparison] = {}
    for each in comparisons:
        key = each.function, each.bound
        found[key] = max(found.get(key, each), each, key=lambda one: one.exact)
    return list(found.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--comparisons", type=int, default=100_000, help="stop after so many")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--seed", type=int, help="only this case, with its numbers")
    parser.add_argument("--known", action="store_true", help="only the inputs that once had a false certificate")
    options = parser.parse_args()
    torch.set_num_threads(1)
    tally, start = Tally(), time.monotonic()
    chosen = known() if options.known else [] if options.seed is None else [drawn(options.seed)]
    for case in chosen:
        describe(case)
        tally.add(case)
    if not chosen:
        for case in (drawn(seed) for seed in itertools.count(options.first_seed)):
            tally.add(case)
            if tally.comparisons >= options.comparisons or time.monotonic() - start > options.seconds:
                break
    tally.show(time.monotonic() - start)
    return tally.status


if __name__ == "__main__":
    sys.exit(main())
