"""Who may import whom: the map of ARCHITECTURE.md, kept true."""

import ast
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import robust_attn

PACKAGE = Path(robust_attn.__file__).parent
MODULES = sorted(path for path in PACKAGE.rglob("*.py"))


@cache
def imports(path: Path) -> set[str]:
    """What a module imports at some time; what only type checkers see does not count."""
    found: set[str] = set()
    tree = ast.parse(path.read_text())
    unseen = [node for node in ast.walk(tree) if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    skipped = {id(inner) for node in unseen for inner in ast.walk(node)}
    for node in (node for node in ast.walk(tree) if id(node) not in skipped):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def uses(path: Path, package: str) -> bool:
    return any(name == package or name.startswith(package + ".") for name in imports(path))


def users(package: str) -> set[str]:
    return {str(path.relative_to(PACKAGE)) for path in MODULES if uses(path, package)}


LAYERS: dict[str, set[str]] = {
    "types": set(),
    "settings": {"types"},
    "plugins": {"types"},
    "records": {"types"},
    "views": {"records", "types"},
    "attention": set(),
    "predictions": {"types"},
    "spectral": {"attention", "types"},
    "budget": {"attention", "types"},
    "observation": {"attention", "budget"},
    "bounds": {"attention", "budget", "plugins", "spectral", "types"},
    "certificates": {"attention", "bounds", "budget", "predictions", "spectral", "types"},
    "attacks": {"attention", "budget", "observation", "settings", "spectral", "types"},
    "models": {"attention", "plugins", "records", "settings", "types"},
    "data": {"attention", "models", "settings", "types"},
    "through": {"attacks", "attention", "budget", "data", "models", "observation", "predictions", "types"},
    "work": {"models", "records", "settings", "types"},
    "runs": {"records", "settings", "types", "work"},
    "pipeline": {
        *("attacks", "attention", "bounds", "budget", "certificates", "data", "models", "observation", "predictions"),
        *("records", "runs", "spectral", "through", "types", "work"),
    },
    "soundness": {
        *("attacks", "attention", "bounds", "budget", "certificates", "models", "observation", "pipeline"),
        *("predictions", "records", "spectral", "through", "types", "views"),
    },
    "tasks": {
        *("attacks", "attention", "bounds", "budget", "data", "observation", "pipeline", "plugins", "predictions"),
        *("records", "settings", "soundness", "spectral", "through", "types", "views", "work"),
    },
    "report": {"records", "runs", "settings", "tasks", "types", "views"},
    "config": {"attacks", "data", "models", "plugins", "records", "runs", "settings", "tasks", "types", "work"},
    "run": {"config", "records", "report", "runs", "types", "work"},
    "cli": {"config", "records", "report", "run", "runs", "types"},
    "__main__": {"cli"},
}
"""Who may import whom, lowest first; ARCHITECTURE.md draws it. Attackers and bounds never see one another."""


def place_of(path: Path) -> str:
    """The folder of a module, or the module itself if it stands at the root."""
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else path.stem


def known(path: Path) -> set[str]:
    """The folders and root modules of this package that a module imports at some time."""
    names = {name.split(".")[1] for name in imports(path) if name.startswith("robust_attn.")}
    return (names & set(LAYERS)) - {place_of(path)}


@pytest.mark.parametrize("place", LAYERS)
def test_nobody_imports_what_is_not_in_the_list(place):
    found = {name: known(path) for path in MODULES if place_of(path) == place for name in [path.name]}
    assert set().union(*found.values()) <= LAYERS[place], found


def test_the_list_is_complete_has_no_cycle_and_lists_nothing_in_vain():
    assert {place_of(path) for path in MODULES} - {"__init__"} == set(LAYERS)
    order = list(LAYERS)
    assert all(order.index(other) < order.index(place) for place, others in LAYERS.items() for other in others)
    for place, others in LAYERS.items():
        assert others == set().union(*(known(path) for path in MODULES if place_of(path) == place)), place


def test_the_root_holds_at_most_eight_modules_and_a_folder_one_thought():
    root = [path for path in PACKAGE.glob("*.py") if path.stem not in ("__init__", "__main__")]
    assert len(root) <= 8
    assert len(list((PACKAGE / "report").glob("*.py"))) <= 18


def test_the_architecture_page_draws_the_list():
    page = (PACKAGE.parent / "ARCHITECTURE.md").read_text()
    for place, others in LAYERS.items():
        drawn = ", ".join(sorted(others)) or "nothing"
        assert f"| `{place}` | {drawn} |" in page, f"| `{place}` | {drawn} |"


@pytest.mark.parametrize(
    ("package", "allowed"),
    [
        ("wandb", {"runs/tracking/wandb_tracker.py"}),
        ("hydra", {"cli.py", "config/places.py", "config/schema.py", "config/sentences.py"}),
        ("omegaconf", {"cli.py", *(f"config/{name}.py" for name in ("places", "schema", "sentences", "settings"))}),
        ("ot", {"observation.py"}),
    ],
)
def test_few_files_know_a_dependency(package, allowed):
    assert users(package) == allowed


@pytest.mark.parametrize("package", ["transformers", "huggingface_hub", "onnx", "gguf"])
def test_only_models_import_transformers(package):
    assert all(user.startswith("models/") for user in users(package))


@pytest.mark.parametrize("folder", ["records", "views", "report", "runs/tracking", "config"])
def test_what_a_person_sees_needs_no_torch(folder):
    assert not [path.name for path in (PACKAGE / folder).rglob("*.py") if uses(path, "torch")]


def test_the_pipeline_does_no_input_or_output():
    names = {name for path in (PACKAGE / "pipeline").glob("*.py") for name in imports(path)}
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
