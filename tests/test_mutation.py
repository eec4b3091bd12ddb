"""The mutation check: every altered bound still fits the code, and the tests notice one in every file."""

import ast
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.mutants import MUTANTS, Mutant
from benchmarks.mutation import BrokenCheckError, check, main, mutated, one_per_file

ROOT = Path(__file__).resolve().parent.parent
BOUNDS = (
    "paper",
    "sharp",
    "setting",
    "interval",
    "slopes",
    "curvature",
    "ball",
    "rows",
    "bound",
    "bent",
    "together",
    "cumulants",
    "higher",
    "one_token",
)
PIECES = ("context", "pieces", "pieces_change")
CERTIFICATES = {
    f"certificates/{name}.py" for name in ("layer", "measures", "followed", "sampled_orders", "higher_orders", "path")
}
SPECTRAL = {
    f"spectral/{name}.py"
    for name in ("between", "derivative_error", "lanczos", "lipschitz", "matrix_norms", "norms", "run_upper")
}
ATTENTION = {f"attention/{name}.py" for name in ("jacobian", "layer", "rounding", "approximate", "derivatives")}
ATTACKS = {"attacks/sliver.py"}
ALTERED = {f"bounds/{name}.py" for name in (*BOUNDS, *PIECES)} | SPECTRAL | ATTENTION | CERTIFICATES | ATTACKS


def source(mutant: Mutant) -> str:
    return (ROOT / "robust_attn" / mutant.file).read_text()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_fits_in_one_place_and_names_tests_that_exist(mutant):
    assert ast.dump(ast.parse(mutated(source(mutant), mutant))) != ast.dump(ast.parse(source(mutant)))
    for place in mutant.tests:
        file, function = place.split("::")
        tree = ast.parse((ROOT / file).read_text())
        assert function in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, place


def test_every_file_of_the_bounds_is_altered_and_no_two_mutants_share_a_name():
    assert {mutant.file for mutant in MUTANTS} == ALTERED
    assert {mutant.file for mutant in one_per_file(MUTANTS)} == ALTERED
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_a_mutant_that_fits_nowhere_or_twice_is_an_error():
    nowhere = replace(MUTANTS[0], old="this text stands nowhere")
    twice = replace(MUTANTS[0], old="import")
    for mutant in (nowhere, twice):
        with pytest.raises(BrokenCheckError, match="expected once"):
            mutated(source(mutant), mutant)


@pytest.mark.slow
def test_one_mutant_of_every_file_is_killed():
    assert main(["--quick"]) == 0


@pytest.mark.slow
def test_a_mutant_that_changes_nothing_survives():
    """The check itself: where the bound is as it was, no test fails."""
    idle = replace(MUTANTS[0], new=MUTANTS[0].old)
    assert check([idle]) == [idle]
