import subprocess
import sys

import pytest

from robust_attn.runs.tracking import NoTracker, make_tracker
from robust_attn.types import UserError


@pytest.mark.parametrize(("kind", "mode"), [("none", "offline"), ("wandb", "disabled")])
def test_no_tracking_needs_no_wandb(kind: str, mode: str) -> None:
    assert isinstance(make_tracker(kind, mode, "p"), NoTracker)


@pytest.mark.parametrize(("kind", "mode"), [("mlflow", "offline"), ("wandb", "dryrun")])
def test_a_wrong_setting_is_one_sentence(kind: str, mode: str) -> None:
    with pytest.raises(UserError, match="expected one of"):
        make_tracker(kind, mode, "p")


def test_wandb_is_imported_only_when_a_run_starts() -> None:
    code = (
        "import sys; from robust_attn.runs.tracking import make_tracker; make_tracker('wandb', 'offline', 'p');"
        "print('wandb' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
