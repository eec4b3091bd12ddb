"""Records small enough to read, as the pipeline hands them to a tracker."""

from robust_attn.records.kinds import AttackRecord
from robust_attn.records.parts import BoundPart, Observed
from robust_attn.records.summary import Summary
from robust_attn.types import RunState
from tests.records.samples import attack_record, certified


def record(layer: int = 0, gain: float | None = 2.5) -> AttackRecord:
    return attack_record(
        layer,
        observed=Observed(gain=gain, output_change=0.025),
        bounds=(
            BoundPart(name="paper.discrete", log10=3.0),
            BoundPart(name="paper.masked", log10=1.0, applies=False),
            BoundPart(name="odd", log10=None),
        ),
        certified=certified(0.03, "local.hull"),
        convergence=(0.01, 0.02, None, 0.025),
    )


def summary(status: RunState = RunState.COMPLETE) -> Summary:
    return Summary(
        task="attack", status=status, exit_status=0, model="toy", budget={}, tokens=3, samples=1, records=2, verdicts={}
    )
