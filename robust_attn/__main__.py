"""`python -m robust_attn`: nothing slow is imported before Ctrl-C is listened to."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any


def main() -> None:
    """Import the command line and run it. Ctrl-C during the import ends the process in silence but for one word.

    Raised inside somebody's module it would show a traceback, or come out as another error; there is nothing to close.
    """
    listening = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if listening:
        signal.signal(signal.SIGINT, _leave)
    from robust_attn.cli import main as run

    if listening:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    run()


def _leave(*_: Any) -> None:
    """As `robust_attn.cli` ends when it is interrupted: the same sentence, the same status."""
    print("robust_attn: interrupted", file=sys.stderr, flush=True)
    os._exit(1)


if __name__ == "__main__":
    main()
