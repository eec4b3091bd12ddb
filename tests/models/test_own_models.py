"""Saved models of every kind that was asked for, from their folders through whole runs: attack, certificate, report."""

from __future__ import annotations

import re

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers

from robust_attn.types import ExitStatus
from tests.composed import run
from tests.models.small import KINDS, library, small

WORDS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
ROWS = [" ".join(WORDS[: 3 + place % 5]) for place in range(20)]


def tokenizer(kind):
    """Words by their number; bytes for Qwen, for which transformers takes its own class whatever the folder says."""
    if kind.startswith("Qwen"):
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
        made = Tokenizer(models.BPE({letter: 5 + place for place, letter in enumerate(alphabet)}, []))
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        return library.PreTrainedTokenizerFast(tokenizer_object=made)
    vocabulary = {word: 5 + place for place, word in enumerate(("[UNK]", *WORDS))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return library.PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")


def save(kind, folder):
    """A small model in a folder, with a tokenizer if it reads text; which data it reads."""
    if "image_size" in KINDS[kind][1]:
        small(kind).save_pretrained(folder)
        return "data=digits"
    small(kind, vocab_size=300).save_pretrained(folder)
    tokenizer(kind).save_pretrained(folder)
    return "data=rows"


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_saved_model_holds_from_the_command_line(kind, tmp_path):
    data, samples = save(kind, tmp_path / "model"), 20 if kind.startswith("Bert") else 2
    options = [data, f"samples={samples}", "attack.steps=5", "model=auto", f"model.weights={tmp_path / 'model'}"]
    if data == "data=rows":
        lines = [f"{text},{place % 2}" for place, text in enumerate(ROWS)]
        (tmp_path / "rows.csv").write_text("\n".join(("text,label", *lines)))
        options += [f"data.path={tmp_path / 'rows.csv'}", "data.label=label"]
    outcome, records, _, _ = run(tmp_path / "run", *options)
    assert outcome.status is ExitStatus.OK
    assert {(record["layer"], record["sample"]) for record in records} == {
        (i, j) for i in (0, 1) for j in range(samples)
    }
    assert {record["verdict"] for record in records} == {"HOLDS"}
    if data == "data=rows":
        assert all((record["row"], record["label"]) == (record["sample"], record["sample"] % 2) for record in records)
        assert re.search(r"Row \d+, label [01]", (tmp_path / "run" / "report.html").read_text())
