"""Reads reports as a browser does: elements that are closed in their order, tables with their cells, and plots."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "br", "hr", "img", "input", "link"}
DRAWN = {"rect", "line", "polyline"}
"""Elements of plots that may close themselves."""


@dataclass
class Element:
    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: "list[Element]" = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its own text, without that of elements in it."""
        return "".join(self.texts)

    def all(self, tag: str) -> "list[Element]":
        """The elements with this tag in it, in their order."""
        return [each for child in self.children for each in (child, *child.every()) if each.tag == tag]

    def every(self) -> "list[Element]":
        return [each for child in self.children for each in (child, *child.every())]

    def one(self, tag: str) -> "Element":
        (found,) = self.all(tag)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Element("")
        self.open = [self.root]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), f"an attribute of {tag} is there twice"
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.open[-1].texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("a report has no comments")


def read_page(html: str) -> Element:
    """The document. An element that is not closed fails the test."""
    reader = _Reader()
    reader.feed(html)
    reader.close()
    assert len(reader.open) == 1, f"<{reader.open[-1].tag}> is not closed"
    return reader.root


def tables_of(page: Element) -> dict[str, tuple[list[str], list[list[str]]]]:
    """By caption: the heads, and the cells of each row."""
    return {
        table.one("caption").text: (
            [head.text for head in table.one("thead").all("th")],
            [[cell.text for cell in row.children] for row in table.one("tbody").all("tr")],
        )
        for table in page.all("table")
    }


def plots_of(page: Element) -> dict[str, Element]:
    """By caption: the SVG of each plot."""
    return {figure.one("figcaption").text: figure.one("svg") for figure in page.all("figure")}
