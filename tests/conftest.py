"""Every test runs on one thread, so that two pytest workers share two cores."""

import torch
from hypothesis import HealthCheck, settings

torch.set_num_threads(1)
settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow],
    print_blob=True,
)
settings.register_profile("thorough", settings.get_profile("repeatable"), max_examples=100)
settings.load_profile("repeatable")  # pytest --hypothesis-profile=thorough looks at four times as many examples
