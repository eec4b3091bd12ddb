"""transformers without its progress bars, advice and pages of errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet_transformers() -> Iterator[None]:
    """Errors only, no progress bars; what was set before is set again afterwards."""
    import transformers

    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()


def reason(error: Exception) -> str:
    """The first line of what a library says when it fails; users get one sentence, not a page."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
