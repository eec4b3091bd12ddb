from pathlib import Path

import pytest

from robust_attn.runs.tracking import Begun, NoTracker, Tracker
from robust_attn.runs.tracking.wandb_tracker import WandbTracker

from .sample_records import record, summary


def test_no_tracker_goes_through_a_run_and_leaves_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    tracker = NoTracker()
    tracker.start(Begun(tmp_path, {"model": "toy"}, "group"))
    tracker.record(record())
    tracker.finish(summary(), tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


def test_a_tracker_must_say_what_it_does_at_every_stage() -> None:
    with pytest.raises(TypeError, match="abstract"):
        Tracker()  # type: ignore[abstract]
    assert Tracker.__abstractmethods__ == {"start", "record", "finish"}


@pytest.mark.parametrize("kind", [NoTracker, WandbTracker])
def test_trackers_are_final(kind: type[Tracker]) -> None:
    assert issubclass(kind, Tracker)
    assert kind.__final__
    assert not kind.__abstractmethods__
