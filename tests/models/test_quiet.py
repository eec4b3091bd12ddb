from __future__ import annotations

from robust_attn.models.quiet import quiet_transformers


def test_verbosity_and_bars_are_as_before_afterwards():
    from transformers.utils import logging

    logging.set_verbosity_info()
    logging.enable_progress_bar()
    with quiet_transformers():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == logging.INFO
    assert logging.is_progress_bar_enabled()
    logging.set_verbosity_warning()
