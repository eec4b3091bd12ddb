"""What is left to CI is no more than it says, and every family that is named exists."""

import ast
from pathlib import Path

import pytest
from hypothesis import settings

from tests.selection import FAMILIES, at_first, examples, leave_some_to_ci

ROOT = Path(__file__).resolve().parent.parent


@pytest.mark.parametrize("file", FAMILIES)
def test_families_exist(file):
    """In the file itself, or inherited by a class of it from a suite of laws."""
    inherited = (ROOT / "tests" / "bounds" / "laws.py", ROOT / "tests" / "attention" / "laws.py")
    texts = [path.read_text() for path in (ROOT / file, *inherited) if path.exists()]
    names = {node.name for text in texts for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)}
    assert set(FAMILIES[file]) <= names


class Item:
    """As much of a collected test as the selection looks at."""

    def __init__(self, nodeid: str, slow: bool = False) -> None:
        self.nodeid, self.slow = nodeid, slow

    def get_closest_marker(self, name: str) -> bool | None:
        return True if name == "slow" and self.slow else None

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.slow = self.slow or mark.name == "slow"


def test_one_case_in_five_is_tried_the_same_ones_in_every_worker(monkeypatch):
    monkeypatch.setattr("tests.selection.FAMILIES", {"tests/test_many.py": ("test_each",)})
    cases = [Item(f"tests/test_many.py::TestLaws::test_each[{n}]") for n in range(11)]
    others = [Item("tests/test_many.py::test_one"), Item("tests/test_few.py::test_each[0]")]
    slow = Item("tests/test_many.py::TestLaws::test_each[11]", slow=True)
    leave_some_to_ci([*cases, *others, slow])
    kept = [item.nodeid for item in cases if not item.slow]
    assert len(kept) == 3
    assert not any(item.slow for item in others)
    again = [Item(item.nodeid) for item in cases]
    leave_some_to_ci(again)
    assert [item.nodeid for item in again if not item.slow] == kept


def test_the_first_values_are_tried_by_default():
    plain, *later = at_first([1, 2, 3], 1)
    assert plain == 1
    assert [each.values[0] for each in later] == [2, 3]


def test_examples_are_in_proportion_to_those_of_the_profile():
    profile = settings().max_examples
    assert examples(in_ci=25).max_examples == profile
    assert 1 <= examples(in_ci=8).max_examples <= max(8, profile * 8 // 25 + 1)
