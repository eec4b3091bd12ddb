"""docs/proofs/ against everything else: citations and links resolve, and what a proof names exists."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.test_theorems import ROOT, ids, rows

DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "proofs").glob("*.md"))
WRITTEN = (".py", ".md", ".yaml", ".toml", ".sh", ".html", ".jinja", ".json", ".cfg")
PLACES = ("robust_attn", "tests", "benchmarks", "docs", "conf", ".ci")


@cache
def texts() -> dict[Path, str]:
    """Every text of the repository: code, tests, benchmarks, documents, settings."""
    inside = (path for place in PLACES for path in (ROOT / place).rglob("*") if path.is_file())
    files = [path for path in (*inside, *ROOT.glob("*.md"), *ROOT.glob("*.toml")) if path.suffix in (*WRITTEN, "")]
    return {path: path.read_text(errors="replace") for path in files if "__pycache__" not in path.parts}


def slug(heading: str) -> str:
    """The anchor that a heading gets in rendered Markdown."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@cache
def headings(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return [slug(found) for found in re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)]


def resolves(page: Path, anchor: str | None) -> bool:
    return page.is_file() and (not anchor or anchor in headings(page))


def section(page: Path, anchor: str) -> str:
    """The text below a heading, up to the next one of the same level or above."""
    lines = page.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("#") and slug(line.lstrip("#")) == anchor)
    level = len(lines[start]) - len(lines[start].lstrip("#"))
    after = (i for i in range(start + 1, len(lines)) if re.match(rf"#{{1,{level}}} ", lines[i]))
    return "\n".join(lines[start : next(after, len(lines))])


def test_every_citation_leads_to_a_page_and_an_anchor():
    cited = 0
    for path, text in texts().items():
        for page, anchor in re.findall(r"docs/proofs/(\w+\.md)(?:#([\w-]+))?", text):
            assert resolves(DOCS / "proofs" / page, anchor), (path, page, anchor)
            cited += 1
    assert cited >= 30


def test_every_link_of_a_page_resolves():
    for path in (*PAGES, DOCS / "theorems.md"):
        for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text()):
            place, _, anchor = target.partition("#")
            page = path if not place else (path.parent / place).resolve()
            assert resolves(page, anchor), (path.name, target)


def test_anchors_are_unique():
    for page in PAGES:
        assert len(headings(page)) == len(set(headings(page))), page.name


def test_every_bound_has_a_proof_that_names_it():
    linked = {name: re.findall(r"\(proofs/(\w+\.md)#([\w-]+)\)", row[2]) for name, row in rows().items()}
    for name in ids():
        places = next(places for listed, places in linked.items() if name in listed)
        assert any(f"`{name}`" in section(DOCS / "proofs" / page, anchor) for page, anchor in places), name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_statement_has_a_proof_a_function_and_tests(page: Path):
    """Comparators are stated: a derivation, or why the formula is no bound, may stand for a proof there."""
    text = page.read_text()
    for heading in re.findall(r"^## (.+)$", text, flags=re.MULTILINE):
        body = section(page, slug(heading))
        if "**Statement.**" not in body:
            continue
        proofs = body.count("**Proof") + body.count("**Derivation") + body.count("**Why") + body.count("**The power")
        assert proofs >= body.count("**Statement.**"), heading
        assert "Computed by:" in body, heading
        assert re.search(r"Tests[^:\n]*: ", body), heading
        assert re.search(r"\w+\.py::test_\w+", body), heading


@cache
def defined(path: Path) -> set[str]:
    """Functions, classes and constants of a file, also those inside of classes."""
    tree = ast.parse(path.read_text())
    names = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    assigned = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    listed = (name for target in assigned for name in ast.walk(target) if isinstance(name, ast.Name))
    return names | {name.id for name in listed}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_tests_and_functions_that_a_page_names_exist(page: Path):
    text = page.read_text()
    for file, function in re.findall(r"`([\w/]+\.py)::(\w+)`", text):
        path = ROOT / "tests" / file
        assert path.is_file(), file
        assert function in defined(path), (file, function)
    for file, name in re.findall(r"`([\w/]+\.py): (\w+)`", text):
        path = ROOT / "robust_attn" / file
        assert path.is_file(), file
        assert name in defined(path), (file, name)


def test_proofs_are_in_the_repository_and_nothing_refers_to_another_place():
    elsewhere = re.compile("she" + r"et\b|theory\." + "md", flags=re.IGNORECASE)
    for path, text in texts().items():
        assert not elsewhere.search(text), (path, elsewhere.search(text))
