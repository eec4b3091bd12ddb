"""One run as a line of a comparison."""

from dataclasses import dataclass

from robust_attn.types import Verdict


@dataclass(frozen=True)
class SweepRun:
    """One line of the comparison: what was set, and the worst that was found.

    `checks` counts the records with a verdict; `lipschitz` is set for runs that only measured or searched.
    """

    label: str
    settings: dict[str, str]
    status: str
    message: str
    records: int
    checks: int
    observed: float | None
    gain: float | None
    certified: float | None
    tightness: float | None
    lipschitz: float | None
    counts: dict[Verdict, int]
    verdict: Verdict
    link: str
