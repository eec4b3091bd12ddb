from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from robust_attn.models.cache import MANIFEST, cache_folder, is_intact, kept_folder, recorded_digests, sha256_of
from robust_attn.types import UserError


def _fill(folder: Path) -> None:
    (folder / "data.bin").write_bytes(b"abc")


def _slow_fill(folder: Path) -> None:
    """Leaves a trace outside of the folder, so that two fillings can be told from one."""
    with (cache_folder().parent / "fillings").open("a") as log:
        log.write("x")
    time.sleep(0.5)
    _fill(folder)


def _keep(cache: str) -> None:
    os.environ["ROBUST_ATTN_CACHE"] = cache
    kept_folder("thing", {}, _slow_fill)


def test_the_variable_chooses_the_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("ROBUST_ATTN_CACHE", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine"
    monkeypatch.delenv("ROBUST_ATTN_CACHE")
    assert cache_folder().name == "robust_attn"


def test_a_folder_is_filled_once(empty_cache):
    kept_folder("thing", {}, _fill)
    folder = kept_folder("thing", {}, lambda _: pytest.fail("filled twice"))
    assert folder == empty_cache / "thing"
    assert recorded_digests(folder) == {"data.bin": sha256_of(folder / "data.bin")}


@pytest.mark.parametrize("damage", ["change", "remove", "manifest"])
@pytest.mark.usefixtures("empty_cache")
def test_a_damaged_folder_is_filled_again(damage):
    folder = kept_folder("thing", {}, _fill)
    if damage == "change":
        (folder / "data.bin").write_bytes(b"abd")
    elif damage == "remove":
        (folder / "data.bin").unlink()
    else:
        (folder / MANIFEST).write_text("{")
    assert not is_intact(folder, {})
    assert (kept_folder("thing", {}, _fill) / "data.bin").read_bytes() == b"abc"


@pytest.mark.usefixtures("empty_cache")
def test_a_manifest_cannot_overrule_a_pinned_digest():
    folder = kept_folder("thing", {}, _fill)
    assert is_intact(folder, {"data.bin": sha256_of(folder / "data.bin")})
    assert not is_intact(folder, {"data.bin": "0" * 64})


def test_a_filling_that_fails_leaves_nothing(empty_cache):
    def broken(folder: Path) -> None:
        _fill(folder)
        raise UserError("half-way")

    with pytest.raises(UserError, match="half-way"):
        kept_folder("thing", {}, broken)
    assert [path.name for path in empty_cache.iterdir() if path.suffix != ".lock"] == []


def test_two_processes_at_once_fill_once(empty_cache):
    spawn = multiprocessing.get_context("fork")
    processes = [spawn.Process(target=_keep, args=(str(empty_cache),)) for _ in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0, 0, 0]
    assert (empty_cache.parent / "fillings").read_text() == "x"
    assert is_intact(empty_cache / "thing", {})


def test_a_cache_that_cannot_be_written_is_a_users_error(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ROBUST_ATTN_CACHE", str(tmp_path / "file" / "below"))
    with pytest.raises(UserError, match="ROBUST_ATTN_CACHE"):
        kept_folder("thing", {}, _fill)
