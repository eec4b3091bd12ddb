"""Who may import whom: the map of ARCHITECTURE.md, kept true."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import robust_attn

PACKAGE = Path(robust_attn.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def uses(path: Path, package: str) -> bool:
    return any(name == package or name.startswith(package + ".") for name in imports(path))


def users(package: str) -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in MODULES if uses(path, package)}


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("wandb", {"tracking/wandb_tracker.py"}),
        ("hydra", {"cli.py", "config/schema.py"}),
        ("omegaconf", {"cli.py", "config/schema.py", "config/settings.py"}),
        ("ot", {"observation.py"}),
    ],
)
def test_few_files_know_a_dependency(package, allowed):
    assert users(package) == allowed


@pytest.mark.parametrize("package", ["transformers", "huggingface_hub", "onnx", "gguf"])
def test_only_models_import_transformers(package):
    assert all(user.startswith("models/") for user in users(package))


@pytest.mark.parametrize(
    ("folder", "forbidden"),
    [
        ("attacks", "robust_attn.bounds"),
        ("attacks", "robust_attn.certificate"),
        ("bounds", "robust_attn.attacks"),
        ("attention", "robust_attn.spectral"),
        ("attention", "robust_attn.bounds"),
        ("spectral", "robust_attn.bounds"),
        ("spectral", "robust_attn.attacks"),
        ("models", "robust_attn.attacks"),
        ("models", "robust_attn.bounds"),
        ("report", "robust_attn.certificate"),
        ("report", "torch"),
        ("tracking", "torch"),
    ],
)
def test_one_way_flow(folder, forbidden):
    assert not [path.name for path in (PACKAGE / folder).rglob("*.py") if uses(path, forbidden)]


def test_the_pipeline_does_no_input_or_output():
    names = imports(PACKAGE / "pipeline.py")
    assert not names & {"pathlib", "json", "os", "rich", "sys"}


def test_there_is_no_utils_module_no_pickle_and_no_global_seed():
    assert not [path for path in MODULES if path.stem in ("utils", "helpers", "common")]
    assert users("pickle") == set()
    text = {path: path.read_text() for path in MODULES}
    assert not [path for path, source in text.items() if "trust_remote_code=True" in source]
    seeded = {str(path.relative_to(PACKAGE)) for path, source in text.items() if "torch.manual_seed(" in source}
    assert all("fork_rng" in (PACKAGE / name).read_text() for name in seeded)


def test_importing_the_package_costs_nothing():
    code = "import sys, robust_attn; print(sorted({'torch', 'hydra', 'transformers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_is_there():
    for name in robust_attn.__all__:
        assert getattr(robust_attn, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = robust_attn.no_such_name


def test_no_public_name_is_shadowed_by_a_module_of_the_same_name():
    """`import robust_attn.x` sets the attribute x of the package: ra.certify was once a module after another import."""
    modules = {path.stem for path in PACKAGE.glob("*.py")} | {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    assert not modules & set(robust_attn.__all__)
