"""docs/theorems.md against the code: every bound of a certificate is listed, with a function and tests that exist."""

import re
from dataclasses import astuple
from functools import reduce
from importlib import import_module
from pathlib import Path

import pytest

from robust_attn.budget import Wasserstein
from robust_attn.certificates.layer import certify
from tests.cases import scalar_layer, scalar_measure
from tests.five_tests import FIVE_TESTS

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "theorems.md").read_text()


def rows() -> dict[str, list[str]]:
    cells = [re.split(r"(?<!\\)\|", line)[1:-1] for line in PAGE.splitlines() if line.startswith("| `")]
    return {row[0].strip().strip("`"): [cell.strip() for cell in row] for row in cells}


def test_the_page_lists_every_bound_of_a_certificate():
    shown = {bound.name for bound in certify(scalar_layer(1.0), scalar_measure([0.0, 1.0]), Wasserstein(0.1)).bounds}
    assert shown <= set(rows())


def test_functions_and_tests_named_exist():
    for name, row in rows().items():
        for place in re.findall(r"`([\w/]+\.py)(?:: (\w+))?`", row[3]):
            source = ROOT / "robust_attn" / place[0]
            assert source.exists(), (name, place)
            assert not place[1] or f"def {place[1]}(" in source.read_text(), (name, place)
        tests = re.findall(r"`((?:tests/)?[\w/]+\.py)`", row[4])
        assert tests, name
        for test in tests:
            path = ROOT / test if test.startswith("tests/") else ROOT / "tests" / "bounds" / test
            assert path.exists(), (name, test)


def ids() -> set[str]:
    """Every id of the page; a row may state several bounds."""
    return {name for row in rows().values() for name in re.findall(r"[a-z_]+\.[a-z0-9_]+", row[0])}


def test_every_bound_of_the_page_has_its_five_tests():
    """Comparators certify nothing, so theirs are not counted here."""
    assert {name for name in ids() if not name.startswith("comparator.")} == set(FIVE_TESTS)


@pytest.mark.parametrize("name", FIVE_TESTS)
def test_the_five_tests_of_a_bound_exist(name):
    """Of an inherited law also that it speaks of this very bound."""
    for place in astuple(FIVE_TESTS[name]):
        file, *names = place.split("::")
        module = import_module(f"tests.{file.removesuffix('.py').replace('/', '.')}")
        assert callable(reduce(getattr, names, module)), place
        assert len(names) == 1 or name in getattr(module, names[0]).names, place
