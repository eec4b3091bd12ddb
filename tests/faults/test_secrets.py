"""Nothing that a run leaves for others names the home folder or a key."""

from pathlib import Path

import pytest

from robust_attn.types import ExitStatus
from tests.faults.command import TINY, command

KEY = "0123456789abcdef0123456789abcdef01234567"


def private(path: Path) -> bool:
    return ".hydra" in path.parts or ("wandb" in path.parts and path.suffix == ".log")


def named(path: Path, home: Path) -> tuple[str, ...]:
    """What must not be there: the home, and in wandb's offline file, which says where files lie, settings with it."""
    return (f"{home.name}/text.txt",) if path.suffix == ".wandb" else (home.name,)


@pytest.mark.parametrize("tracker", ["none", pytest.param("wandb", marks=pytest.mark.slow)])
def test_no_key_and_no_home_in_what_a_run_leaves(tracker, tmp_path, monkeypatch, capsys):
    """Left out: .hydra, the command as it was typed, and wandb's logs of itself; both stay on the machine."""
    home = tmp_path / "home-of-somebody"
    place = home / "work"
    place.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("WANDB_API_KEY", KEY)
    monkeypatch.setenv("HF_TOKEN", KEY)
    (home / "text.txt").write_text("many words of some text, " * 40)
    settings = [setting for setting in TINY if not setting.startswith("tracker")]
    given = (*settings, "data=text", f"data.path={home / 'text.txt'}", f"tracker={tracker}", "hydra.run.dir=run")
    status, _ = command(monkeypatch, capsys, place, *given)
    assert status is ExitStatus.OK
    left = [path for path in (place / "run").rglob("*") if path.is_file() and not private(path)]
    assert {"records.jsonl", "report.html", "summary.json"} <= {path.name for path in left}
    telling = {
        str(path.relative_to(place)): secret
        for path in left
        for secret in (KEY, *named(path, home))
        if secret.encode() in path.read_bytes()
    }
    assert telling == {}
