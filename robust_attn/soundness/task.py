"""The task on the command line: a campaign, one that goes on with another, or the replay of a saved violation."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from robust_attn.runs.folder import RunFolder
from robust_attn.soundness.campaign import Campaign, case_record, continued
from robust_attn.soundness.check import check, saved_case

VIOLATIONS = "violations"


def soundness_records(values: dict[str, Any], folder: RunFolder) -> Iterator[dict[str, Any]]:
    """The records of the task with these settings; violations are saved below the run folder as they are found."""
    if values["replay"] is not None:
        case, begun = saved_case(Path(values["replay"]).expanduser()), time.monotonic()
        checked = check(case)
        yield case_record(case, checked, seconds=time.monotonic() - begun)
        return
    campaign = Campaign(values["cases"], values["minutes"], values["first_seed"])
    if values["resume"] is not None:
        earlier = continued(Path(values["resume"]).expanduser())
        yield earlier
        campaign = replace(campaign, first_seed=earlier["carried"]["last_seed"] + 1)
    yield from campaign.records(lambda name, found: save_violation(folder, name, found))


def save_violation(folder: RunFolder, name: str, found: dict[str, Any]) -> None:
    """A reproducer in `violations/` of the run folder, whole or not at all."""
    place = folder.path / VIOLATIONS
    place.mkdir(exist_ok=True)
    RunFolder(place).write(name, found)
