"""Small classifiers of embeddings: attention without positions, a mean, and a linear map."""

import torch
from torch import Tensor, nn


class AttentionClassifier(nn.Module):
    """Two residual attention blocks of torch's own, and the mean over tokens."""

    def __init__(self, width: int = 8, classes: int = 3, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.blocks = nn.ModuleList(nn.MultiheadAttention(width, 2, batch_first=True) for _ in range(2))
            self.head = nn.Linear(width, classes)
        self.double().eval().requires_grad_(False)

    def forward(self, tokens: Tensor) -> Tensor:
        hidden = tokens
        for block in self.blocks:
            hidden = hidden + 3 * block(hidden, hidden, hidden, need_weights=False)[0]
        return self.head(torch.tanh(hidden).mean(1))


class PositionalClassifier(AttentionClassifier):
    """The same, with a different weight for every place."""

    def forward(self, tokens: Tensor) -> Tensor:
        return super().forward(tokens * torch.linspace(1, 2, tokens.shape[1], dtype=tokens.dtype)[:, None])
