"""What `data=prose` reads is English: whole sentences, no tables, no code."""

from __future__ import annotations

import random
import re

import pytest

from robust_attn.data.prose import all_paragraphs, paragraphs, passages, plain_sentence, prose, read_elsewhere
from robust_attn.types import UserError

TOKENS = re.compile(r"\w+|[^\w\s]")
COMMON = re.compile(r"a|an|and|are|as|at|be|by|for|from|if|in|is|it|not|of|on|or|that|the|this|to|which|with", re.I)


def test_it_is_plenty_and_nothing_twice():
    text = prose()
    assert sum(map(len, text)) > 120_000
    assert len(set(text)) == len(text)


def test_paragraphs_are_whole_sentences():
    for paragraph in prose():
        assert paragraph[0].isupper()
        assert paragraph.rstrip(')"”')[-1] in ".?!"
        assert not re.search(r"[|*_`\\=<>{}\[\]#@/~^$%+]|>>>|::|--|\n|  ", paragraph), paragraph


def test_windows_of_32_tokens_read_like_english():
    tokens = TOKENS.findall(" ".join(prose()))
    generator = random.Random(0)
    for _ in range(500):
        start = generator.randrange(len(tokens) - 32)
        window = tokens[start : start + 32]
        letters = sum(character.isalpha() for character in "".join(window))
        assert letters >= 0.85 * len("".join(window)), window
        assert sum(word.isalpha() for word in window) >= 20, window
        assert sum(COMMON.fullmatch(word) is not None for word in window) >= 3, window


REST = """
Naming and binding
******************

*Names* refer to many objects.  They are introduced by ``binding()`` operations
and :ref:`looked up <scopes>` later [1]_. Now x = y + 1 follows in the text.

The following constructs bind names. They are given in a list::

    import names

* formal parameters to functions. They bind names when these are called.

  Indented text belongs to a list. It is not taken either.

| table | of words. It is no paragraph. |

A sentence alone is left out.

>>> print("Code is no prose. It is left out.")
"""


def test_only_plain_sentences_in_a_row_are_taken_without_markup():
    taken = "Names refer to many objects. They are introduced by binding operations and looked up later."
    assert list(paragraphs(REST)) == [taken]


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("The value is returned to the caller.", True),
        ("Is the value (if any) returned to the caller?", True),
        ("the value is returned to the caller.", False),  # not its beginning
        ("The value is returned to the caller", False),  # not its end
        ("Set x_y to the value of the caller.", False),  # code
        ("A B C D are names of the variables.", False),  # letters
        ("The RFC 822 and 2822 define 4 of 12 such things.", False),  # numbers
        ("The value (if any is returned to the caller.", False),
        ("Too few words here.", False),
        ("Changed in version three so that it works.", False),
    ],
)
def test_what_a_plain_sentence_is(text, plain):
    assert plain_sentence(text) is plain


def test_passages_begin_with_paragraphs_and_leave_none_out():
    text = prose()
    for count in (1, 2, 4, 7, 50):
        found = passages(text, count)
        assert len(found) == count
        assert " ".join(found) == " ".join(text)
        longest = max(map(len, text))
        assert all(abs(len(each) - len(" ".join(text)) / count) <= 2 * longest for each in found)


def test_more_passages_than_paragraphs_leave_some_empty():
    assert sorted(passages(["one", "two"], 3)) == ["", "one", "two"]


def test_without_any_source_it_is_refused_and_one_alone_is_enough(monkeypatch, tmp_path):
    from pydoc_data import topics

    monkeypatch.setattr("sysconfig.get_path", lambda _: str(tmp_path))
    monkeypatch.setattr("robust_attn.data.prose._files", lambda *_: [])
    monkeypatch.setattr(topics, "topics", {})
    with pytest.raises(UserError, match="use data=text with a file of your own"):
        all_paragraphs()
    said = "A module may say something useful. It may say it in two sentences."
    (tmp_path / "abc.py").write_text(f'"""Title\n\n{said}\n"""\n')
    assert all_paragraphs() == (said,)


def test_another_process_reads_the_same_and_what_fails_there_is_read_here(monkeypatch):
    here = all_paragraphs()
    monkeypatch.setattr("robust_attn.data.prose._READ", [])
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    read_elsewhere()
    monkeypatch.undo()
    monkeypatch.setattr("robust_attn.data.prose._READ", read := [])
    read_elsewhere()
    assert read == [here]
    read_elsewhere()
    assert prose() is read[0]
