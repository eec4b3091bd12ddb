"""Running English that is already on the machine: documentation that Python and two of our dependencies ship.

Two or more plain sentences in a row make a paragraph; headings, lists, tables, code and markup are left out. Topics and
modules are those that give the same paragraphs in CPython 3.11.7, 3.12.1 and 3.13.0, so the text does not depend on
which of these reads it. What jinja2 and scikit-learn add at the end may change with their versions. Where some of the
files are missing the others are read; without any there is no prose.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
import sysconfig
import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import accumulate, pairwise
from pathlib import Path

from robust_attn.types import UserError

TOPICS = (
    "exceptions import assignment attribute-access attribute-references augassign booleans calls comparisons "
    "context-managers debugger del dict else exprlists for global if lambda lists operator-summary raise "
    "sequence-types slicings typesfunctions typesseq yield"
)
"""Topics of `help()`: the language reference."""

MODULES = (
    "abc ast asyncio/events asyncio/futures asyncio/protocols asyncio/selector_events asyncio/sslproto "
    "asyncio/staggered asyncio/unix_events base64 bdb bz2 calendar cmd code codecs collections/__init__ configparser "
    "dataclasses dbm/dumb difflib email/charset email/feedparser email/generator email/header email/headerregistry "
    "email/message email/parser email/policy fileinput ftplib functools getopt graphlib http/client http/cookiejar "
    "http/cookies http/server imaplib inspect io json/decoder json/encoder linecache locale logging/config "
    "logging/handlers lzma mimetypes multiprocessing/pool optparse os pickle pickletools pkgutil platform plistlib "
    "pstats pydoc quopri random re/__init__ shelve site socket socketserver string subprocess tempfile textwrap "
    "threading timeit tokenize traceback urllib/error urllib/parse urllib/request urllib/response uuid "
    "venv/__init__ weakref wsgiref/headers wsgiref/simple_server wsgiref/validate xml/dom/domreg xml/dom/minidom "
    "xml/sax/_exceptions xml/sax/handler xml/sax/saxutils xml/sax/xmlreader xmlrpc/client xmlrpc/server"
)
"""Modules of the standard library whose docstrings are read; none is imported."""

MARKUP = (
    (re.compile(r":[a-z:]+:`[~.!]?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),  # roles
    (re.compile(r"``?([^`]*?)``?_{0,2}"), r"\1"),  # code and links
    (re.compile(r"\*\*?([A-Za-z][^*]*?)\*\*?"), r"\1"),  # emphasis
    (re.compile(r'"([^"\s]*)"'), r"\1"),  # names in quotes
    (re.compile(r"\b([A-Za-z]+)\(\)"), r"\1"),  # calls
    (re.compile(r"\s*\[[\w#-]*\]_"), ""),  # references
)
NO_PARAGRAPH = re.compile(
    r"""\A(?:\s|[-*+•|.>]\s|\.\.|\d+[.)]\s)  # indented, listed, a directive
    | ::|>>>|\n[ \t]                         # code, or lines of different indentation
    | ^([=~*#^"'-])\1{2,}\s*$                # an underline""",
    re.MULTILINE | re.VERBOSE,
)
SENTENCES = re.compile(r"(?:(?<=[.?!])|(?<=[.?!][)”\"]))\s+(?=[A-Z])")
PLAIN = re.compile(r"[A-Z][A-Za-z0-9 ,;:'’“”\"()–—-]*[.?!][)”\"]?")
WORD = re.compile(r"[A-Za-z]+(?:[-'’][A-Za-z]+)*")
ODD = re.compile(r"--|''|\d{5}|\w{25}|\( | \)|[(,;:] ?[,;:)]")
LABEL = re.compile(r"(?:New|Changed) in version|Deprecated|Args?:|Returns?:|Note:|Raises?:|Example|Usage")
MARKS = ",;:.?!()“”\"'"
ELSEWHERE_SECONDS = 60.0
_READING = threading.Lock()
_READ: list[tuple[str, ...]] = []
"""The paragraphs, once they are known."""


def prose() -> tuple[str, ...]:
    """The paragraphs, always in the same order, each once: about 150 000 characters.

    They are put together once, which takes a second; whoever asks meanwhile, in another thread, waits for the same.
    """
    with _READING:
        if not _READ:
            _READ.append(all_paragraphs())
        return _READ[0]


def read_elsewhere() -> None:
    """Have another process put them together, for `prose` to find: Python imports and reads with one thread at a time.

    Where that fails nothing has happened.
    """
    with _READING:
        if _READ or not sys.executable:
            return
        command = [sys.executable, "-P", "-m", "robust_attn.data.prose"]
        paths = {"PYTHONPATH": os.pathsep.join(place for place in sys.path if place)}
        with suppress(OSError, subprocess.SubprocessError, ValueError):
            done = subprocess.run(
                command, capture_output=True, check=True, env={**os.environ, **paths}, timeout=ELSEWHERE_SECONDS
            )
            _READ.append(tuple(json.loads(done.stdout)))


def all_paragraphs() -> tuple[str, ...]:
    """The same, put together by now."""
    found = tuple(dict.fromkeys(paragraph for text in _documents() for paragraph in paragraphs(text)))
    if not found:
        raise UserError(
            "this Python ships without its documentation and sources: use data=text with a file of your own"
        )
    return found


def paragraphs(document: str) -> Iterator[str]:
    """The stretches of at least two plain sentences in a row, without markup; none reaches across a blank line."""
    for block in re.split(r"\n[ \t]*\n", inspect.cleandoc(document)):
        if not NO_PARAGRAPH.search(block):
            yield from _stretches(SENTENCES.split(_without_markup(block)))


def plain_sentence(text: str) -> bool:
    """Whether it begins with a capital letter, ends with a full stop, and nearly all between are ordinary words."""
    words = text.split()
    if len(words) < 5 or not PLAIN.fullmatch(text) or LABEL.match(text):
        return False
    if ODD.search(text) or text.count("(") != text.count(")") or text.count('"') % 2:
        return False
    ordinary = sum(WORD.fullmatch(word.strip(MARKS)) is not None for word in words)
    small = sum(word[0].islower() for word in words)
    letters = sum(len(word) == 1 and word not in "aAI" for word in words)  # names of variables
    return ordinary >= len(words) - len(words) // 12 and small >= 0.7 * len(words) and letters <= 1


def passages(paragraphs: Sequence[str], count: int) -> list[str]:
    """The paragraphs in order as so many passages of about equal length, each from the beginning of a paragraph.

    Where there are more passages than paragraphs some are empty.
    """
    offsets = list(accumulate(map(len, paragraphs), initial=0))
    starts = [bisect_left(offsets, place * offsets[-1] / count) for place in range(count)]
    return [" ".join(paragraphs[start:end]) for start, end in pairwise([*starts, len(paragraphs)])]


def _without_markup(block: str) -> str:
    text = " ".join(block.split())
    for pattern, replacement in MARKUP:
        text = pattern.sub(replacement, text)
    return text


def _stretches(sentences: Iterable[str]) -> Iterator[str]:
    stretch: list[str] = []
    for sentence in (*sentences, ""):
        if plain_sentence(sentence):
            stretch.append(sentence)
            continue
        if len(stretch) > 1:
            yield " ".join(stretch)
        stretch = []


def _documents() -> Iterator[str]:
    """Topics of the language reference, docstrings of the standard library and of jinja2, descriptions of data sets."""
    from pydoc_data.topics import topics

    yield from (topics.get(name, "") for name in TOPICS.split())
    library = Path(sysconfig.get_path("stdlib"))
    modules = [library / f"{name}.py" for name in MODULES.split()] + _files("jinja2", "*.py")
    for module in filter(Path.exists, modules):
        yield from _docstrings(ast.parse(module.read_text(encoding="utf-8")))
    yield from (file.read_text(encoding="utf-8") for file in _files("sklearn", "datasets/descr/*.rst"))


def _docstrings(module: ast.Module) -> Iterator[str]:
    """Those of a module, its classes and functions, from the top of the file to its bottom."""
    left: list[ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef] = [module]
    while left:
        node = left.pop()
        yield ast.get_docstring(node) or ""
        left += [
            each
            for each in reversed(node.body)
            if isinstance(each, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        ]


def _files(package: str, pattern: str) -> list[Path]:
    """Files of a package in alphabetical order, without importing it."""
    folders = (Path(place) / package for place in sys.path)
    found = next((folder for folder in folders if (folder / "__init__.py").is_file()), None)
    return [] if found is None else sorted(found.glob(pattern))


if __name__ == "__main__":
    print(json.dumps(all_paragraphs()))
