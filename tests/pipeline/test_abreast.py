"""Jobs in threads of their own: the order of what they make, what they raise, and torch's own threads."""

import threading
from functools import partial

import pytest
import torch

from robust_attn.config.settings import settings_from
from robust_attn.pipeline import layers
from robust_attn.pipeline.abreast import abreast, one_thread_each
from robust_attn.runs import memory
from robust_attn.work import Desk, Work
from tests.composed import QUICK, composed


@pytest.mark.parametrize("workers", [1, 2, 5])
def test_what_jobs_make_comes_in_their_order(workers):
    """The first job ends last: it waits for the second, which can begin only where there are several workers."""
    gone = threading.Event()

    def job(index):
        if workers > 1 and index == 0:
            assert gone.wait(10)
        yield from (10 * index, 10 * index + 1)
        if index == 1:
            gone.set()

    made = [list(found) for found in abreast([partial(job, index) for index in range(4)], workers)]
    assert made == [[0, 1], [10, 11], [20, 21], [30, 31]]


@pytest.mark.parametrize("workers", [1, 3])
def test_what_a_job_raises_is_raised_in_its_turn(workers):
    def job(index):
        if index == 1:
            raise ArithmeticError("of job 1")
        return [index]

    made = []
    with pytest.raises(ArithmeticError, match="of job 1"):
        made.extend(list(found) for found in abreast([partial(job, index) for index in range(3)], workers))
    assert made in ([], [[0]])


def test_who_asks_for_no_more_begins_no_more():
    begun, leave = [], threading.Event()

    def job(index):
        begun.append(index)
        if index:
            leave.wait(10)
        return [index]

    asking = abreast([partial(job, index) for index in range(50)], 2)
    assert list(next(asking)) == [0]
    asking.close()
    leave.set()
    assert len(begun) < 10


def test_torch_has_its_threads_back_afterwards():
    before = torch.get_num_threads()
    with one_thread_each(True) as threads:
        assert (threads, torch.get_num_threads()) == (before, 1)
    with one_thread_each(False) as threads:
        assert (threads, torch.get_num_threads()) == (1, before)
    assert torch.get_num_threads() == before


def test_no_more_layers_at_once_than_fit_into_memory(monkeypatch):
    one = memory.certificate_bytes(4, 64, 12)
    for free, many in ((None, 1), (one, 1), (7 * one, 3)):
        monkeypatch.setattr(memory, "available_bytes", lambda free=free: free)
        assert memory.most_that_fit(4, 64, 12) == many


def test_records_do_not_depend_on_how_many_layers_are_worked_on_at_once(monkeypatch):
    def records(workers):
        monkeypatch.setattr(layers, "most_that_fit", lambda *_: workers)
        monkeypatch.setattr(torch, "get_num_threads", lambda: workers)
        settings = settings_from(composed(*QUICK, "model=toy", "attack=mass_split", "certificate.seed=1"))
        return [record.to_json() for record in settings.task.records(Work(settings, Desk()))]

    monkeypatch.setattr(torch, "set_num_threads", lambda *_: None)
    assert records(1) == records(3)


@pytest.mark.parametrize(("most", "threads"), [(layers.SMALL, 1), (0, 2)])
def test_a_model_is_loaded_by_one_thread_and_reads_short_texts_by_one(monkeypatch, most, threads):
    """Long texts are read by all that torch has."""
    seen = {}

    def spied(name):
        real = getattr(layers, name)

        def called(*arguments, **options):
            seen[name] = torch.get_num_threads()
            return real(*arguments, **options)

        monkeypatch.setattr(layers, name, called)

    spied("load_model")
    spied("read_groups")
    monkeypatch.setattr(layers, "SMALL", most)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        settings = settings_from(composed(*QUICK, "model=toy", "attack=random"))
        next(iter(settings.task.records(Work(settings, Desk()))))
    finally:
        torch.set_num_threads(before)
    assert seen == {"load_model": 1, "read_groups": threads}
