"""Damaged files of every kind: the reader gives a result or a UserError of one sentence, and nothing else."""

import io
import json
import shutil

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from robust_attn.data.images import image_folder
from robust_attn.data.rows import rows_of
from robust_attn.data.text import read_text
from robust_attn.models import load_model
from robust_attn.models.gguf import convert_gguf
from robust_attn.models.onnx_weights import convert_onnx
from robust_attn.records.store import load_run
from robust_attn.types import UserError

SIZES = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "vocab_size": 40}
FEW = settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
CUT = st.floats(0, 1)
NOISE = st.binary(max_size=200)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """A small BERT as a folder of weights."""
    folder = tmp_path_factory.mktemp("weights") / "saved"
    load_model("bert", "random", dtype=torch.float32, sizes=SIZES).module.save_pretrained(folder)
    return folder


def a_result_or_one_sentence(call, *arguments) -> None:
    try:
        call(*arguments)
    except UserError as error:
        assert str(error).strip()  # noqa: PT017


@FEW
@given(cut=CUT, noise=NOISE, at=CUT)
def test_safetensors_cut_or_overwritten(saved, tmp_path, cut, noise, at):
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    whole = (saved / "model.safetensors").read_bytes()
    content = bytearray(whole[: int(cut * len(whole))] if cut < 0.8 else whole)
    place = int(at * min(len(content), 4000))
    content[place : place + len(noise)] = noise
    (folder / "model.safetensors").write_bytes(bytes(content))
    a_result_or_one_sentence(load_model, "bert", str(folder))


CONFIGURED = st.sampled_from(
    (
        *("hidden_size", "num_attention_heads", "num_hidden_layers", "model_type", "vocab_size", "hidden_act", "dtype"),
        *("layer_norm_eps", "max_position_embeddings", "is_decoder", "auto_map", "architectures"),
        "quantization_config",
    )
)


@FEW
@given(name=CONFIGURED, value=JSON)
def test_a_configuration_with_a_wrong_value(saved, tmp_path, name, value):
    folder = tmp_path / "copy"
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    content = json.loads((saved / "config.json").read_text()) | {name: value}
    (folder / "config.json").write_text(json.dumps(content))
    a_result_or_one_sentence(load_model, "bert", str(folder))


@FEW
@given(noise=NOISE)
@pytest.mark.parametrize(("convert", "start"), [(convert_gguf, b"GGUF\x03\x00\x00\x00"), (convert_onnx, b"")])
def test_gguf_and_onnx_of_random_bytes_are_refused_and_stay(tmp_path, convert, start, noise):
    path = tmp_path / "model.bin"
    path.write_bytes(start + noise)
    with pytest.raises(UserError):
        convert(path)
    assert path.exists()


@FEW
@given(text=st.text(st.characters(codec="utf-8"), max_size=40))
def test_text_of_any_alphabet(tmp_path, text):
    path = tmp_path / "text.txt"
    path.write_text(text, encoding="utf-8", newline="")
    a_result_or_one_sentence(read_text, path)


@FEW
@given(content=NOISE)
def test_text_of_random_bytes(tmp_path, content):
    path = tmp_path / "text.txt"
    path.write_bytes(content)
    a_result_or_one_sentence(read_text, path)


@FEW
@given(
    width=st.integers(1, 40), height=st.integers(1, 40), mode=st.sampled_from(["1", "L", "P", "RGB", "RGBA", "CMYK"]),
    cut=CUT, kind=st.sampled_from(["png", "gif", "tiff"]),
)  # fmt: skip
def test_images_of_other_sizes_kinds_and_cuts(tmp_path, width, height, mode, cut, kind):  # noqa: PLR0917
    image = Image.fromarray(np.full((height, width, 3), 77, dtype=np.uint8)).convert(mode)
    stream = io.BytesIO()
    try:
        image.save(stream, format=kind)
    except (OSError, ValueError):  # a format without that mode
        return
    content = stream.getvalue()
    (tmp_path / "image.png").write_bytes(content[: int(cut * len(content))] if cut < 0.5 else content)
    a_result_or_one_sentence(image_folder, tmp_path, 1, (3, 8, 8))


@FEW
@given(rows=st.lists(JSON, max_size=4), noise=NOISE, at=CUT, kind=st.sampled_from(["csv", "tsv", "jsonl"]))
def test_tables_of_anything(tmp_path, rows, noise, at, kind):
    lines = ["text,label".replace(",", "\t" if kind == "tsv" else ",")] if kind != "jsonl" else []
    content = bytearray("\n".join([*lines, *map(json.dumps, rows)]).encode())
    place = int(at * len(content))
    content[place:place] = noise
    (tmp_path / f"rows.{kind}").write_bytes(bytes(content))
    a_result_or_one_sentence(lambda: list(rows_of(tmp_path / f"rows.{kind}", "text", "label")))


@FEW
@given(records=NOISE, summary=JSON)
def test_a_run_folder_of_anything_is_read(tmp_path, records, summary):
    (tmp_path / "records.jsonl").write_bytes(records)
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert load_run(tmp_path).status
