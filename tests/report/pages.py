"""A page as a browser would see it."""

from html.parser import HTMLParser
from pathlib import Path

from robust_attn.report import write_report

EVIL = "</script><script>alert('x')</script><img src=http://evil.example/x onerror=alert(1)>"


class Page(HTMLParser):
    """Elements, addresses, text, ids, and the cells of every table by its id, with what they are sorted by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.addresses: list[str] = []
        self.ids: list[str] = []
        self.handlers: list[str] = []
        self.words: list[str] = []
        self.tables: dict[str, list[list[tuple[str, str | None]]]] = {}
        self._silent = self._cell = False
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self._silent = tag in ("script", "style")
        given = dict(attrs)
        self.addresses += [given[name] or "" for name in ("src", "href", "srcset", "action", "data") if name in given]
        self.ids += [given["id"] or ""] if "id" in given else []
        self.handlers += [name for name in given if name.startswith("on")]
        if tag == "table":
            self.tables[str(given.get("id"))] = []
        elif tag == "tr":
            self.tables[list(self.tables)[-1]].append([])
        elif tag in ("td", "th"):
            self.tables[list(self.tables)[-1]][-1].append(("", given.get("data-value")))
            self._cell = True

    def handle_endtag(self, tag: str) -> None:
        self._silent = False
        self._cell = self._cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if not self._silent:
            self.words.append(data)
        if self._cell:
            row = self.tables[list(self.tables)[-1]][-1]
            row[-1] = (row[-1][0] + data, row[-1][1])

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def page_of(folder: Path) -> Page:
    return Page(write_report(folder).read_text(encoding="utf-8"))
