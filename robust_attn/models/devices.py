"""Devices by name, as settings have them."""

from __future__ import annotations

import torch

from robust_attn.types import UserError


def device_named(name: str) -> torch.device:
    """The device: auto is CUDA where there is one and otherwise the CPU; one that is not there is refused."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UserError(f"device={name}: this torch ({torch.__version__}) sees no CUDA device.")
    if device.type == "cuda" and (device.index or 0) >= torch.cuda.device_count():
        raise UserError(f"device={name}: there are {torch.cuda.device_count()} CUDA devices, counted from 0.")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise UserError(f"device={name}: this torch ({torch.__version__}) sees no MPS device.")
    return device
