"""Alter one constant, sign or exponent of a bound at a time and see the tests fail.

    python -m benchmarks.mutation              # all mutants
    python -m benchmarks.mutation --quick      # one per file
    python -m benchmarks.mutation --only NAME  # those whose name contains NAME

The package and its tests are copied to a temporary folder. The tests named by the mutants must pass there as they are;
then each mutant is applied alone and its own tests run. Exit status 1 if one survives, 2 if the check itself is broken.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.mutants import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parent.parent
COPIED = ("robust_attn", "tests", "conf", "pyproject.toml")
PASSED, FAILED = 0, 1
"""Exit statuses of pytest; every other one means that tests could not be run at all."""


class BrokenCheckError(RuntimeError):
    """The mutation check says nothing: a mutant that fits nowhere, or tests that fail or do not run without one."""


def mutated(source: str, mutant: Mutant) -> str:
    """The source with the mutant applied."""
    found = source.count(mutant.old)
    if found != 1:
        raise BrokenCheckError(f"{mutant.name}: {mutant.old!r} stands {found} times in {mutant.file}, expected once")
    return source.replace(mutant.old, mutant.new)


def one_per_file(mutants: Sequence[Mutant]) -> list[Mutant]:
    """The first mutant of every file."""
    first: dict[str, Mutant] = {}
    for mutant in mutants:
        first.setdefault(mutant.file, mutant)
    return list(first.values())


def sandbox(folder: Path) -> None:
    """A copy of everything that the tests need."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder / name)


def run_tests(folder: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """The tests, one after another until the first failure, with the copied package; compiled modules are kept."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", "0", "--tb=line", "-p", "no:cacheprovider", *tests]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"PYTHONPATH": str(folder), "PYTHONPYCACHEPREFIX": str(folder / "compiled"), "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def check_unaltered(folder: Path, mutants: Sequence[Mutant]) -> None:
    """The tests of all mutants must pass without any: a test that fails anyway kills nothing."""
    done = run_tests(folder, sorted({test for mutant in mutants for test in mutant.tests}))
    if done.returncode != PASSED:
        raise BrokenCheckError(f"the tests do not pass without a mutant:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def survives(folder: Path, mutant: Mutant) -> bool:
    """Whether the tests of a mutant pass with it."""
    path = folder / "robust_attn" / mutant.file
    original = path.read_text()
    try:
        _write(path, mutated(original, mutant))
        done = run_tests(folder, mutant.tests)
    finally:
        _write(path, original)
    if done.returncode not in (PASSED, FAILED):
        raise BrokenCheckError(
            f"{mutant.name}: its tests could not be run:\n{done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
    return done.returncode == PASSED


def _write(path: Path, text: str) -> None:
    """A new version of a file, later by a second than the one before: that is how stale compiled modules are known."""
    later = path.stat().st_mtime + 1
    path.write_text(text)
    os.utime(path, (later, later))


def check(mutants: Sequence[Mutant]) -> list[Mutant]:
    """Run every mutant, print what became of it, and return those that no test noticed."""
    with tempfile.TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        sandbox(folder)
        check_unaltered(folder, mutants)
        survivors = []
        for mutant in mutants:
            started = time.monotonic()
            alive = survives(folder, mutant)
            survivors += [mutant] * alive
            word = "SURVIVED" if alive else "KILLED"
            print(f"{word:8}  {time.monotonic() - started:5.1f} s  {mutant.name}", flush=True)
    print(f"{len(mutants)} mutants, {len(mutants) - len(survivors)} killed, {len(survivors)} survived", flush=True)
    return survivors


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one mutant per file")
    parser.add_argument("--only", default="", metavar="NAME", help="mutants whose name contains NAME")
    asked = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if asked.only in mutant.name]
    if not mutants:
        parser.error(f"no mutant's name contains {asked.only!r}")
    try:
        return 1 if check(one_per_file(mutants) if asked.quick else mutants) else 0
    except BrokenCheckError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
