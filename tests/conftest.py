"""Every test runs on one thread, so that two pytest workers share two cores, and with annotations that are checked.

Tasks and views are not among the checked packages: what they name of torch they import when it is needed.
"""

import gc
from collections.abc import Generator

import pytest
import torch
from hypothesis import HealthCheck, settings

from tests.selection import CI_EXAMPLES, leave_some_to_ci
from tests.shapes import check_some_calls, next_test

CHECKED = (
    *("attacks", "attention", "bounds", "budget", "certificates", "data", "models", "observation", "pipeline"),
    *("records", "soundness", "spectral", "through"),
)
check_some_calls([f"robust_attn.{name}" for name in CHECKED])
torch.set_num_threads(1)
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=6,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
for name, examples in (("ci", CI_EXAMPLES), ("thorough", 100)):
    settings.register_profile(name, settings.get_profile("repeatable"), max_examples=examples)
settings.load_profile("repeatable")  # pytest --hypothesis-profile=thorough looks at many more examples


def pytest_runtest_setup() -> None:
    next_test()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    leave_some_to_ci(items)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is imported stays: the collector does not look through it again and again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
