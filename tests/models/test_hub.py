from __future__ import annotations

import socket
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
import torch

from robust_attn.models import hub, load_model, weights
from robust_attn.models.catalog import ModelSpec, spec_of
from robust_attn.types import UserError


@pytest.fixture
def no_hub_cache(monkeypatch, tmp_path):
    """Hugging Face's own cache reads its variables once, at import; the functions take what the module holds."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    return tmp_path / "hub"


@pytest.fixture
def server():
    """A hub that answers HEAD requests for one file, and has a repository that is closed."""
    known = {"/owner/name/resolve/main/config.json": 200, "/owner/gated/resolve/main/config.json": 401}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.send_response(known.get(self.path, 404))
            if "gated" in self.path:
                self.send_header("X-Error-Code", "GatedRepo")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


@pytest.fixture
def silent():
    """An address that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_hub_answers_for_what_it_has(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server + "/")
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert hub.hub_answers("owner/name/resolve/main/config.json")
    assert not hub.hub_answers("owner/other/resolve/main/config.json")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert not hub.hub_answers("owner/name/resolve/main/config.json")


@pytest.mark.usefixtures("no_hub_cache")
def test_a_repository_that_is_gated_or_not_there_is_refused_by_name(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    with pytest.raises(UserError, match="does not hand owner/gated out to everybody: it is gated"):
        load_model("auto", "owner/gated")
    with pytest.raises(UserError, match=r"does not answer for owner/other \(status 404\)"):
        load_model("auto", "owner/other")
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UserError, match="owner/name is not on this disk, and HF_HUB_OFFLINE"):
        load_model("auto", "owner/name")


@pytest.mark.parametrize("address", ["http://10.255.255.1", "http://no-such-host.invalid", "silent"])
@pytest.mark.usefixtures("no_hub_cache")
def test_auto_falls_back_within_five_seconds_and_says_so(address, silent, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", silent if address == "silent" else address)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    weights.resolve(spec_of("toy"), "auto", seed=0)
    start = time.monotonic()
    resolved = weights.resolve(spec_of("bert"), "auto", seed=0)
    took = time.monotonic() - start
    print(f"{address}: gave up after {took:.2f} s")
    assert took < 5
    assert resolved.origin.label == "random:0"
    assert "RANDOM weights" in resolved.origin.note
    assert "hub does not answer for google-bert/bert-base-uncased" in resolved.origin.note


@pytest.mark.usefixtures("offline", "no_hub_cache")
def test_pretrained_is_refused_where_there_is_none():
    with pytest.raises(UserError, match="no trained weights of gpt2 are available"):
        load_model("gpt2", "pretrained")


@pytest.mark.usefixtures("no_hub_cache")
def test_a_hub_that_breaks_off_does_not_stop_auto(server, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", server)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    resolved = weights.resolve(ModelSpec("named", "bert", sizes={}, hub="owner/name"), "auto", seed=0)
    assert resolved.origin.label == "random:0"
    assert "could not be downloaded" in resolved.origin.note


def _in_hub_cache(cache, repository, module):
    folder = cache / f"models--{repository.replace('/', '--')}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs" / "main").write_text("c0ffee")
    module.save_pretrained(folder / "snapshots" / "c0ffee")
    return folder / "snapshots" / "c0ffee"


@pytest.mark.usefixtures("offline")
def test_what_hugging_face_keeps_on_disk_comes_first(no_hub_cache):
    small = load_model("bert", "random", seed=5, sizes={"hidden_size": 24, "num_hidden_layers": 1})
    folder = _in_hub_cache(no_hub_cache, "google-bert/bert-base-uncased", small.module.float())
    model = load_model("bert", "auto")
    assert model.origin.label == "hub:google-bert/bert-base-uncased@c0ffee"
    assert set(model.origin.sha256) == {"model.safetensors"}
    assert torch.equal(model.layer(0).query.float(), small.layer(0).query.float())
    (folder / "model.safetensors").unlink()
    assert hub.cached_snapshot("google-bert/bert-base-uncased") is None


@pytest.mark.usefixtures("offline")
def test_a_pinned_file_with_another_hash_is_not_used(no_hub_cache, empty_cache, monkeypatch):
    small = load_model("bert", "random", sizes={"hidden_size": 24, "num_hidden_layers": 1})
    _in_hub_cache(no_hub_cache, "sentence-transformers/all-MiniLM-L6-v2", small.module)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(empty_cache))
    with pytest.raises(UserError, match="was expected; not using it"):
        load_model("minilm", "pretrained")


def test_downloads_never_ask_for_pickles_or_code():
    names = ["pytorch_model.bin", "model.bin", "modeling_x.py", "training_args.bin", "flax_model.msgpack", "model.pt"]
    from fnmatch import fnmatch

    assert not [name for name in names for pattern in hub.FILES if fnmatch(name, pattern)]
