from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from robust_attn.data import hub
from robust_attn.types import UserError


@pytest.fixture
def library(monkeypatch):
    """A stand-in for `datasets` with two rows, and a hub that answers."""
    rows = [{"text": "first row", "label": 1}, {"text": "second row", "label": 0}]
    calls = []

    def load_dataset(name, *, split, streaming):
        calls.append((name, split, streaming))
        if split != "train":
            raise ValueError(f"Unknown split {split}")
        return iter(rows)

    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load_dataset))
    monkeypatch.setattr(hub, "hub_answers", lambda path: path == "api/datasets/owner/set")
    return calls


def test_a_column_is_joined_from_a_stream(library):
    assert hub.hub_text("owner/set", "train", "text") == "first row\nsecond row"
    assert library == [("owner/set", "train", True)]


@pytest.mark.parametrize("column", ["label", "absent"])
@pytest.mark.usefixtures("library")
def test_a_column_without_text_is_refused_with_those_there_are(column):
    with pytest.raises(UserError, match=f"no text column '{column}'; its columns are text, label"):
        hub.hub_text("owner/set", "train", column)


@pytest.mark.usefixtures("library")
def test_a_split_that_is_not_there_is_a_users_error():
    with pytest.raises(UserError, match="Unknown split test"):
        hub.hub_text("owner/set", "test", "text")


@pytest.mark.usefixtures("library")
def test_a_hub_out_of_reach_is_a_users_error():
    with pytest.raises(UserError, match=r"does not answer for data set owner/other"):
        hub.hub_text("owner/other", "train", "text")


def test_without_the_package_the_message_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(UserError, match=r"pip install 'robust_attn\[hub\]'"):
        hub.hub_text("owner/set", "train", "text")
