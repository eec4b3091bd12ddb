"""The tutorial runs as it stands and prints what stands in it."""

import contextlib
import io
import math
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parent.parent / "docs" / "tutorial.md"
BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n\n```text\n(?P<output>.*?)```", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
TOLERANCE = 0.02


def blocks(page: str) -> list[tuple[str, str]]:
    """Each block of code with the output below it."""
    return [(found["code"], found["output"]) for found in BLOCK.finditer(page)]


def printed(codes: list[str]) -> list[str]:
    """What each block prints, run one after another in one session."""
    names: dict[str, object] = {}
    outputs = []
    for code in codes:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(code, names)
        outputs.append(out.getvalue())
    return outputs


def alike(first: str, second: str) -> bool:
    """The same words, and numbers within the tolerance; blanks do not count."""
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (first, second)]
    numbers = [[float(number) for number in NUMBER.findall(text)] for text in (first, second)]
    return words[0] == words[1] and all(
        math.isclose(one, other, rel_tol=TOLERANCE, abs_tol=1e-12) for one, other in zip(*numbers, strict=True)
    )


def test_numbers_are_compared_with_a_tolerance_and_words_are_not():
    assert alike("gain 1.00 of 3\n", "gain  1.01 of 3")
    assert not alike("gain 1.00", "gain 1.05")
    assert not alike("gain 1.00", "loss 1.00")
    assert not alike("1 2", "1")


def test_every_block_of_code_has_its_output():
    page = PAGE.read_text(encoding="utf-8")
    assert len(blocks(page)) == page.count("```python") == page.count("```text") > 5


@pytest.mark.slow
def test_the_page_prints_what_it_says():
    pytest.importorskip("pandas", reason="the tutorial reads a run as a pandas frame")
    codes, said = zip(*blocks(PAGE.read_text(encoding="utf-8")), strict=True)
    for code, expected, found in zip(codes, said, printed(list(codes)), strict=True):
        assert alike(expected, found), f"{code}\nprints\n{found}\nand the page says\n{expected}"
