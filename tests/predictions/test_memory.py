"""Freed memory is kept inside, and the allocator is as before outside."""

import pytest

from robust_attn.predictions import memory
from robust_attn.predictions.memory import KEPT, USUAL, kept_memory


class _Library:
    def __init__(self) -> None:
        self.settings, self.trimmed = {}, 0

    def mallopt(self, parameter, value):
        self.settings[parameter] = value
        return 1

    def malloc_trim(self, _):
        self.trimmed += 1


def test_settings_last_as_long_as_the_block_and_no_longer(monkeypatch):
    library = _Library()
    monkeypatch.setattr(memory, "_library", lambda: library)
    with pytest.raises(KeyError), kept_memory():
        raise KeyError(library.settings.update(seen=dict(library.settings)))
    assert library.settings.pop("seen") == KEPT
    assert library.settings == USUAL
    assert library.trimmed == 1


def test_inner_blocks_change_nothing(monkeypatch):
    library = _Library()
    monkeypatch.setattr(memory, "_library", lambda: library)
    with kept_memory():
        with kept_memory():
            pass
        assert library.settings == KEPT


def test_without_that_library_nothing_happens(monkeypatch):
    monkeypatch.setattr(memory, "_library", lambda: None)
    with kept_memory():
        pass
