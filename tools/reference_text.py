"""Markdown of the reference pages, and the texts that the code has for them: docstrings of classes and of their fields."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Sequence
from html import escape
from itertools import pairwise

_MARKDOWN = re.compile(r"([\\*_\[\]|#])")
_CODE = re.compile(r"(`[^`]+`)")
_PAGE = re.compile(r"docs/([\w/-]+\.md)")
_SCHEMAS = re.compile(r"docs/schemas(?![\w/])")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table of cells that are Markdown already."""
    return "\n".join(f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows))


def prose(text: str) -> str:
    """A text of the code on one line of Markdown. Code in backquotes stays code, names of pages become links."""
    parts = _CODE.split(" ".join(text.split()))
    return "".join(code(part[1:-1]) if _CODE.fullmatch(part) else _plain(part) for part in parts)


def paragraphs(text: str) -> str:
    """A docstring as Markdown: one line for each paragraph."""
    return "\n\n".join(prose(part) for part in re.split(r"\n\s*\n", inspect.cleandoc(text)) if part.strip())


def code(text: str) -> str:
    """A short text as code, in a cell of a table as well.

    A pipe in backquotes ends the cell on code hosts, and with a backslash before it the site shows the backslash.
    """
    shown = " ".join(str(text).split())
    if "|" in shown:
        return f"<code>{escape(shown, quote=False).replace('|', '&#124;')}</code>"
    return f"`{shown}`" if shown else ""


def block(text: str, language: str = "text") -> str:
    return f"```{language}\n{text.rstrip()}\n```"


def page(title: str, *parts: str) -> str:
    """A whole page. Its second line says where it comes from."""
    made = "<!-- Written by `make reference` from the code: do not edit. -->"
    return "\n\n".join([f"# {title}", made, *(part for part in parts if part)]) + "\n"


def _plain(text: str) -> str:
    linked = _PAGE.sub(r"[\1](../\1)", _MARKDOWN.sub(r"\\\1", escape(text, quote=False)))
    return _SCHEMAS.sub("[JSON of answers](schemas.md)", linked)


# ---- what the code says


def summary_of(owner: type) -> str:
    """The docstring of a class itself, not one that it inherits or that is made for it."""
    return inspect.cleandoc(owner.__dict__.get("__doc__") or "") if _is_written(owner) else ""


def _is_written(owner: type) -> bool:
    return ast.get_docstring(_body(owner)) is not None


def field_texts(owner: type) -> dict[str, str]:
    """The texts that stand below the fields of a class, of its bases as well."""
    texts: dict[str, str] = {}
    for each in reversed([base for base in owner.__mro__ if base.__module__.startswith("mooring.")]):
        texts.update(_field_texts(_body(each)))
    return texts


def _field_texts(body: ast.ClassDef) -> dict[str, str]:
    """A text belongs to the field above it."""
    texts = {}
    for field, text in pairwise(body.body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant) and isinstance(text.value.value, str):
            texts[field.target.id] = inspect.cleandoc(text.value.value)
    return texts


def _body(owner: type) -> ast.ClassDef:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    return body
