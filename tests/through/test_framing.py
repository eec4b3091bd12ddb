import pytest

from robust_attn.through.framing import Frame, frame_of


class Tokenizer:
    def __init__(self, before, after):
        self.before, self.after = before, after

    def encode(self, text, *, add_special_tokens):
        ids = [ord(letter) for letter in text]
        return [*self.before, *ids, *self.after] if add_special_tokens else ids


@pytest.mark.parametrize(("before", "after"), [([], []), ([1], []), ([], [2]), ([1], [2]), ([1, 3], [2, 2])])
def test_whatever_a_tokenizer_puts_around_a_text(before, after):
    frame = frame_of(Tokenizer(before, after))
    assert frame == Frame(tuple(before), tuple(after))
    assert frame.added == len(before) + len(after)


def test_without_a_tokenizer_there_is_nothing_around():
    assert frame_of(None) == Frame()


def test_a_tokenizer_that_changes_the_text_is_refused():
    class Odd(Tokenizer):
        def encode(self, _text, *, add_special_tokens):
            return [7] if add_special_tokens else [8, 9]

    with pytest.raises(ValueError, match="it changes the text"):
        frame_of(Odd([], []))
