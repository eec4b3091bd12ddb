"""What pages say was printed was printed: quoted tables are compared with what is kept of the command's output.

Below `<!-- recorded: FILE -->` every line of the table or block stands in docs/recorded/FILE, in the same order,
and the page names the command. Other figures in that section stand in FILE too; where nothing is quoted, the section
or the beginning of its page says when and at which commit they were measured.
"""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import robust_attn as ra

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
RECORDED = DOCS / "recorded"
NO_FIGURES = {"settings.md", "reference.md", "theorems.md", "glossary.md"}
"""Pages whose numbers are settings or constants of theorems; the tutorial is run by a test of its own."""
PAGES = [ROOT / "README.md", *sorted(page for page in DOCS.glob("*.md") if page.name != "tutorial.md")]
OTHERS = [ROOT / "CONTRIBUTING.md", ROOT / "ARCHITECTURE.md", ROOT / "runs" / "README.md"]
MARKER = re.compile(r"<!-- recorded: (\S+) -->\n+(?P<block>(?:[^\n]+\n)+)")
CODE = re.compile(
    r"```(?:bash|sh|python|toml|yaml|json)\n.*?```|(?<!`)`[^`\n]*`(?!`)|^    [^\n]*$|\]\([^)]*\)",
    re.DOTALL | re.MULTILINE,
)
"""What is typed; a block without a language, or of text, was printed, so its figures count."""
UNITS = "s|GB|MB|%|times|passes|minutes|seconds|hours|cases|comparisons|passed|violations|runs"
FIGURE = re.compile(rf"(?<![\w.])\d+\.\d+|\d+(?:e-\d+| (?:{UNITS})(?!\w))|\d \d{{3}}")
NO_FIGURE = re.compile(
    r"(?:Python|torch(?:attacks)?|transformers|joblib|cloudpickle|CPython) (?:\d[\d.]*(?:, | and | to )?)+"
)
HEADING = re.compile(r"\$ (?P<command>python .+)\n\d{1,2} [A-Z][a-z]+ 20\d\d, commit (?P<commit>[0-9a-f]{7})\n")
MEASURED = re.compile(r"\d{1,2} [A-Z][a-z]+ 20\d\d(?:,| at) commit (?P<commit>[0-9a-f]{7})")


def lines(text: str) -> list[str]:
    """Lines that say something, blanks made alike."""
    return [" ".join(line.split()) for line in text.splitlines() if line.strip() and not line.startswith("```")]


def stands_in(quoted: list[str], whole: list[str]) -> bool:
    """Whether all lines are there, in that order."""
    rest = iter(whole)
    return all(line in rest for line in quoted)


def unmeasured(page: str) -> list[str]:
    """Headings of the sections with figures that nothing says the origin of: no date, nor output that they quote."""
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    return [] if MEASURED.search(sections[0]) else [text.partition("\n")[0] for text in sections if not _known(text)]


def _known(section: str) -> bool:
    bare = NO_FIGURE.sub("", CODE.sub("", MARKER.sub("", section)))
    kept = "".join((RECORDED / found[1]).read_text(encoding="utf-8") for found in MARKER.finditer(section))
    return MEASURED.search(section) is not None or all(found[0] in kept for found in FIGURE.finditer(bare))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_quoted_output_is_what_was_printed(page):
    text = page.read_text(encoding="utf-8")
    assert text.count("<!-- recorded:") == len(MARKER.findall(text))
    for found in MARKER.finditer(text):
        kept = (RECORDED / found[1]).read_text(encoding="utf-8")
        heading = HEADING.match(kept)
        assert heading is not None, f"{found[1]} does not begin with its command, date and commit"
        assert heading["command"] in text, f"{page.name} quotes {found[1]} but does not name its command"
        assert stands_in(lines(found["block"]), lines(kept)), f"{page.name} quotes what {found[1]} does not have"


@pytest.mark.parametrize(
    "page", [page for page in (*PAGES, *OTHERS) if page.name not in NO_FIGURES], ids=lambda page: page.name
)
def test_other_figures_say_when_they_were_measured(page):
    assert unmeasured(page.read_text(encoding="utf-8")) == []


def test_no_recorded_output_lies_about_unused():
    quoted = {name for page in PAGES for name in re.findall(r"<!-- recorded: (\S+) -->", page.read_text("utf-8"))}
    assert quoted == {file.name for file in RECORDED.iterdir()}


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no checkout")
def test_commits_that_are_named_exist():
    texts = [*PAGES, *RECORDED.iterdir()]
    named = {found["commit"] for each in texts for found in (*MEASURED.finditer(each.read_text("utf-8")),)}
    named |= {found["commit"] for each in RECORDED.iterdir() if (found := HEADING.match(each.read_text("utf-8")))}
    command = ["git", "cat-file", "--batch-check"]
    shown = subprocess.run(
        command, cwd=ROOT, input="\n".join(sorted(named)), capture_output=True, text=True, check=True
    )
    assert not [line for line in shown.stdout.splitlines() if line.split()[1] != "commit"]


def test_a_changed_digit_a_changed_order_and_a_figure_without_a_date_are_found():
    assert stands_in(["| 1 | 0.5 |"], ["| 0 | 0.4 |", "| 1 | 0.5 |"])
    assert not stands_in(["| 1 | 0.6 |"], ["| 0 | 0.4 |", "| 1 | 0.5 |"])
    assert not stands_in(["b", "a"], ["a", "b"])
    assert unmeasured("# Page\n\n## Fast\nIt took 3 s.\n\n## Other\n`budget.radius=0.1`\n") == ["Fast"]
    assert unmeasured("# Page\n\n## Fast\nIt took 3 s. Measured on 1 May 2026 at commit 0123abc, by `x`.\n") == []
    assert unmeasured("# Page\n\n## Fast\nIt took 3 s (1 May 2026, commit 0123abc).\n") == []


@pytest.mark.parametrize(
    "said",
    [
        "The gain is 0.5.",
        "It takes 214 passes.",
        "It failed in 3e-9 of all cases.",
        "| layer | gain |\n| --- | --- |\n| 0 | 1.5 |",
        "```\ntightness 0.5\n```",
        "```text\n0 violations\n```",
        "It took 3 s. Measured on 1 May 2026.",
        "It took 3 s, at commit 0123abc.",
        "<!-- recorded: quickstart.txt -->\n| 0 | HOLDS |\n\nAttacks reached 12.345 %.",
    ],
)
def test_no_figure_passes_that_is_neither_recorded_nor_dated(said):
    assert unmeasured(f"# Page\n\n## Fast\n{said}\n\n## Other\n`budget.radius=0.1`\n") == ["Fast"]
    assert unmeasured(f"# Page\n\n{said}\n\n## Other\nNothing.\n") == ["# Page"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tests_that_are_cited_exist(page):
    cited = re.findall(r"`(?:tests/)?([\w/]*test_\w+\.py)\b", page.read_text("utf-8"))
    assert [name for name in cited if not (ROOT / "tests" / name).exists()] == []


def test_every_public_name_has_a_reference_entry():
    named = re.findall(r"^::: robust_attn\.(\w+)$", (DOCS / "reference.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(named) == sorted(ra.__all__)


def test_names_of_the_library_that_pages_use_are_public():
    texts = [*PAGES, *OTHERS, DOCS / "tutorial.md", ROOT / "CHANGELOG.md", *(DOCS / "proofs").glob("*.md")]
    used = {name for page in texts for name in re.findall(r"\bra\.(\w+)", page.read_text("utf-8"))}
    assert used <= set(ra.__all__)


def test_every_page_is_in_the_navigation_of_the_site():
    site = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
    listed = set(re.findall(r"[\w/]+\.md", str(site["nav"])))
    assert {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")} <= listed


def test_ci_builds_the_site_with_what_the_extra_says():
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]["docs"]
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    assert all(f'"{each}"' in ci for each in extra)
    assert "mkdocs build --strict" in ci


def test_the_readme_is_short():
    assert len((ROOT / "README.md").read_text("utf-8").splitlines()) <= 120
