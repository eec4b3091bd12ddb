"""Repeat tokens of a text: mass splitting that a person could type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from robust_attn.records.kinds import Record
from robust_attn.records.store import Run
from robust_attn.settings import setting
from robust_attn.tasks.task import Needs, Task
from robust_attn.types import UserError
from robust_attn.views.repeats import repeats_view
from robust_attn.views.view import View
from robust_attn.work import Work


@final
@dataclass(frozen=True)
class RepeatTokensTask(Task):
    """Repeat tokens of a text, each the best of some that were really read."""

    repeats: int = setting(4, "repetitions at most", least=1)
    candidates: int = setting(8, "candidates read before each repetition", least=1)
    name: ClassVar[str] = "repeat_tokens"
    kinds: ClassVar[tuple[str, ...]] = ("repeat", "repeat_layer")
    needs: ClassVar[Needs] = Needs.CLASSIFIER
    attacks: ClassVar[bool] = True
    dtypes: ClassVar[tuple[str, ...]] = ("float64", "float32")

    def records(self, work: Work) -> Iterator[Record]:
        """For each sample one record per repetition, then one per layer."""
        from robust_attn.attacks.discrete import RepeatTokens
        from robust_attn.pipeline.repeats import RepeatedTokens
        from robust_attn.pipeline.whole import read
        from robust_attn.through.classifier import TextClassifier

        whole = read(work)
        if not isinstance(whole.classifier, TextClassifier):
            name = whole.classifier.model.name
            raise UserError(f"{name} reads no tokens that could be repeated; take model=injection.")
        task = RepeatedTokens(RepeatTokens(self.repeats, self.candidates), whole.attack)
        texts = [reading.batch[0] for reading in whole.readings]
        yield from task.records(whole.classifier, texts, whole.layers, seed=work.settings.seed)

    def view(self, run: Run) -> View:
        """Whether typing flipped a prediction, and what it did at every layer."""
        return repeats_view(run)
