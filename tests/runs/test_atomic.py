import stat
from pathlib import Path

import pytest

from robust_attn.runs.atomic import write_text


def test_the_file_holds_the_text_as_utf8_and_replaces_the_old_one(tmp_path: Path) -> None:
    path = tmp_path / "report.md"
    path.write_text("old")
    assert write_text(path, "μ ≤ 1\nend") == path
    assert path.read_bytes() == "μ ≤ 1\nend".encode()
    assert [found.name for found in tmp_path.iterdir()] == ["report.md"]


def test_others_may_read_the_file(tmp_path: Path) -> None:
    path = write_text(tmp_path / "a", "")
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_text_that_is_no_unicode_is_still_written(tmp_path: Path) -> None:
    assert write_text(tmp_path / "a", "cut \udcc3 here").read_text() == "cut ? here"


@pytest.mark.parametrize("problem", [OSError("disk full"), KeyboardInterrupt()])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: BaseException
) -> None:
    path = tmp_path / "report.md"
    path.write_text("old")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(problem))
    with pytest.raises(type(problem)):
        write_text(path, "new")
    assert {found.name: found.read_text() for found in tmp_path.iterdir()} == {"report.md": "old"}
