import subprocess
import sys

import pytest

from robust_attn.config.settings import choice_from
from robust_attn.runs.tracking import NoTracker, make_tracker
from robust_attn.runs.tracking.settings import NoTracking, Wandb
from robust_attn.runs.tracking.wandb_tracker import WandbTracker
from robust_attn.settings import Settings
from robust_attn.types import UserError


@pytest.mark.parametrize("asked", [NoTracking(), Wandb(mode="disabled")])
def test_no_tracking_needs_no_wandb(asked: Settings) -> None:
    assert isinstance(make_tracker(asked), NoTracker)


@pytest.mark.parametrize("mode", ["offline", "online"])
def test_wandb_is_made_where_it_is_asked_for(mode: str) -> None:
    assert isinstance(make_tracker(Wandb(mode=mode)), WandbTracker)


@pytest.mark.parametrize(
    ("kind", "mode", "sentence"),
    [
        ("mlflow", "offline", "There is no tracker 'mlflow'; there are: wandb, none."),
        ("wandb", "dryrun", "tracker.mode must be one of offline, online, disabled, got 'dryrun'."),
    ],
)
def test_a_wrong_setting_is_one_sentence(kind: str, mode: str, sentence: str) -> None:
    with pytest.raises(UserError) as refusal:
        choice_from("tracker", {"name": kind, "mode": mode, "project": "p"})
    assert str(refusal.value) == sentence


def test_wandb_is_imported_only_when_a_run_starts() -> None:
    code = (
        "import sys; from robust_attn.runs.tracking import make_tracker; "
        "from robust_attn.runs.tracking.settings import Wandb; "
        "print(type(make_tracker(Wandb())).__name__, 'wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "WandbTracker False"
