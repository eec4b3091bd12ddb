"""A wheel carries the configuration along and works from an empty folder; the project's pages keep their word."""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, unpacked as an installer would."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "-q",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        str(ROOT),
    ]
    subprocess.run(build, check=True, capture_output=True, text=True, timeout=300)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_an_installed_package_runs_in_an_empty_folder(installed, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(installed), "OMP_NUM_THREADS": "1"}
    where = subprocess.run(
        [sys.executable, "-c", "import robust_attn.cli as c; print(c.configuration_folder())"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert Path(where.stdout.strip()) == installed / "robust_attn" / "conf"
    done = subprocess.run(
        [sys.executable, "-m", "robust_attn", "model=toy", "attack=mass_split", "tokens=4", "samples=1",
         "tracker=none"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (summary,) = tmp_path.glob("runs/*/*/summary.json")
    assert json.loads(summary.read_text())["status"] == "complete"
    assert (summary.parent / "report.html").exists()


def test_the_wheel_holds_every_configuration_and_template(installed):
    for path in (ROOT / "conf").rglob("*.yaml"):
        assert (installed / "robust_attn" / "conf" / path.relative_to(ROOT / "conf")).exists()
    assert list((installed / "robust_attn" / "report" / "templates").glob("*.j2"))


def test_ci_runs_the_test_line_of_the_readme():
    readme = (ROOT / "README.md").read_text()
    block = re.search(r"<!-- the test line -->\n```\w*\n(.*?)\n```", readme, re.DOTALL)
    assert block is not None
    assert block[1].count("\n") == 0
    assert block[1].endswith("-m pytest")
    assert "<!-- the test line -->" in (ROOT / ".ci" / "run").read_text()


def test_how_to_contribute_is_short():
    """CONTRIBUTING.md says how to add a bound, an attack and a model in at most 15 lines each."""
    text = (ROOT / "CONTRIBUTING.md").read_text()
    for noun in ("bound", "attack", "model"):
        section = re.search(rf"## Add an? {noun}\n(.*?)(?=\n## |\Z)", text, re.DOTALL)
        assert section is not None, noun
        assert len(section[1].strip().splitlines()) <= 15
