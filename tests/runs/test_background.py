"""Work in a thread, as seen by whoever waits for it."""

import signal
import threading

import pytest

from robust_attn.runs.background import THREAD_NAME, in_background, sigterm_interrupts, work_under_way


def test_items_come_in_order_from_another_thread():
    makers = [threading.current_thread() for _ in range(1)] + list(
        in_background(threading.current_thread() for _ in range(3))
    )
    assert len(set(makers[1:])) == 1
    assert makers[1] is not makers[0]
    assert makers[1].name == THREAD_NAME
    assert makers[1].daemon
    assert list(in_background(iter(range(1000)))) == list(range(1000))


@pytest.mark.parametrize("problem", [ValueError("why"), KeyboardInterrupt(), SystemExit(3)])
def test_what_is_raised_comes_after_the_items_before_it(problem):
    def items():
        yield 1
        raise problem

    seen = []
    with pytest.raises(type(problem)) as caught:
        seen.extend(in_background(items()))  # extend keeps nothing of a generator that raises
    assert caught.value is problem
    source = in_background(items())
    assert next(source) == 1


def test_a_thread_left_behind_is_known_until_it_ends(monkeypatch):
    """Of all threads only the new one is looked at: other tests of this process may have left theirs behind."""
    before, go_on = set(threading.enumerate()), threading.Event()

    def items():
        yield 1
        go_on.wait()

    source = in_background(items())
    assert next(source) == 1
    source.close()  # as an interrupt does
    (left,) = set(threading.enumerate()) - before
    monkeypatch.setattr(threading, "enumerate", lambda: [threading.current_thread(), left])
    assert work_under_way()
    go_on.set()
    left.join(30)
    assert not work_under_way()


@pytest.fixture
def nobody_listens():
    """SIGTERM ends the process, as it does where nobody has asked for it."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("nobody_listens")
def test_sigterm_is_an_interrupt_inside_and_what_it_was_outside():
    with sigterm_interrupts():
        assert signal.getsignal(signal.SIGTERM) is signal.default_int_handler  # else the next line is the end
    with pytest.raises(KeyboardInterrupt), sigterm_interrupts():
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    with sigterm_interrupts(), sigterm_interrupts():
        pass
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


@pytest.mark.usefixtures("nobody_listens")
@pytest.mark.parametrize("handler", [signal.SIG_IGN, lambda *_: None])
def test_whoever_listens_to_sigterm_already_goes_on_listening(handler):
    signal.signal(signal.SIGTERM, handler)
    with sigterm_interrupts():
        assert signal.getsignal(signal.SIGTERM) is handler
    assert signal.getsignal(signal.SIGTERM) is handler


@pytest.mark.usefixtures("nobody_listens")
def test_another_thread_cannot_listen_and_does_not_try():
    def inside():
        with sigterm_interrupts():
            yield signal.getsignal(signal.SIGTERM)

    assert list(in_background(inside())) == [signal.SIG_DFL]
