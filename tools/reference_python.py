"""The reference of the Python calls for notebooks, and of the names for plugins: signatures as written, and docstrings."""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Callable, Iterator
from enum import Enum
from importlib import import_module
from itertools import pairwise
from typing import Any

from reference_text import block, code, field_texts, page, paragraphs, prose, summary_of, table

import mooring
from mooring import plugin
from mooring.answers import notebook
from mooring.answers.capacity import capacity
from mooring.answers.capacity.capacity import Capacity
from mooring.answers.experiments import comparing
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.explain.explanation import GroupExplanation, PodExplanation, WorkloadExplanation
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.pending.pending_answer import PendingExplanation
from mooring.answers.plan import offers
from mooring.answers.plan.plan import Plan
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulation_answer import SimulationAnswer
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.what_if import question
from mooring.answers.what_if.difference import WhatIf
from mooring.inputs import loaded_cluster

ANSWERS = (
    *(PodExplanation, WorkloadExplanation, GroupExplanation, PendingExplanation, WhatIf, Capacity, Plan, Comparison),
    *(SimulationAnswer, DayAnswer, StudyAnswer),
)
OF_EVERY_ANSWER = ("summary", "tables", "to_dict", "to_frame")
ALIASES = ("Source", "Written", "Objects", "Config", "Plugins", "Gates", "PodFile", "Configs", "Offered", "Change")
"""Names of types that the signatures have."""


def python_page() -> str:
    """The calls of `import mooring` with what they return, and the names of `mooring.plugin`."""
    intro = """\
`import mooring` is for notebooks, scripts and tests. [Answers](../answers.md#in-python) and
[Simulation](../simulation.md#in-python) have examples; longer ones are in `examples/notebook.py` and
`examples/answers.ipynb`."""
    calls = [part for name in sorted(mooring.__all__) for part in _exported(name)]
    answers = [part for answer in ANSWERS for part in _answer(answer)]
    returned = ["## What the calls return", *_of_every_answer(), *answers]
    return page("Python", intro, *_types(), *calls, *returned, *_of_plugins())


def _exported(name: str) -> Iterator[str]:
    if name == "__version__":
        return
    value = getattr(notebook, name)
    yield f"## mooring.{name}"
    if inspect.isfunction(value):
        yield from _call(value)
        return
    yield paragraphs(summary_of(value))
    for method, function in vars(value).items():
        if inspect.isfunction(function) and not method.startswith("_"):
            yield f"### {name}.{method}"
            yield from _call(function)


def _call(function: Callable[..., Any]) -> Iterator[str]:
    yield block(signature(function), "python")
    yield paragraphs(inspect.getdoc(function) or "")


def signature(function: Callable[..., Any]) -> str:
    """Name and arguments as the source has them, without `self`; a constant that is a default by its value."""
    (written,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(written, ast.FunctionDef)
    arguments = written.args
    arguments.args = [argument for argument in arguments.args if argument.arg != "self"]
    for place, default in enumerate(arguments.kw_defaults):
        if isinstance(default, ast.Name):
            value = inspect.signature(function).parameters[arguments.kwonlyargs[place].arg].default
            arguments.kw_defaults[place] = ast.Constant(value)
    returned = f" -> {ast.unparse(written.returns)}".replace("'", "") if written.returns is not None else ""
    shown = _arguments(arguments)
    if arguments.kwarg is not None and (options := re.search(r"Unpack\[(\w+)\]", ast.unparse(arguments.kwarg))):
        shown += [f"{name}: {kind} = None" for name, kind in _options(options[1])]
    line = f"{written.name}({', '.join(shown)}){returned}"
    if len(line) <= 100:
        return line
    return "\n".join([f"{written.name}(", *(f"    {each}," for each in shown), f"){returned}"])


def _options(name: str) -> Iterator[tuple[str, str]]:
    """The options of a TypedDict of the module of the calls, those of its base first."""
    body = ast.parse(inspect.getsource(notebook)).body
    for owner in (each for each in body if isinstance(each, ast.ClassDef)):
        if owner.name == name:
            for base in owner.bases:
                yield from _options(ast.unparse(base))
            yield from _written(owner)


def _arguments(arguments: ast.arguments) -> list[str]:
    defaults: list[ast.expr | None] = [None] * (len(arguments.args) - len(arguments.defaults))
    shown = [_argument(*pair) for pair in zip(arguments.args, [*defaults, *arguments.defaults], strict=True)]
    if arguments.vararg is not None:
        shown.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        shown.append("*")
    return shown + [_argument(*pair) for pair in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    return ast.unparse(argument) + (f" = {ast.unparse(default)}" if default is not None else "")


# ---- types of arguments


def _types() -> Iterator[str]:
    yield "The calls take files or plain data. These names stand for types of their arguments:"
    rows = [[code(name), code(kind), prose(text)] for name, kind, text in _aliases()]
    yield table(["name", "type", "meaning"], rows)


def _aliases() -> Iterator[tuple[str, str, str]]:
    """Name, type and text of each alias, from the modules that define them."""
    for module in (loaded_cluster, capacity, comparing, offers, question):
        body = ast.parse(inspect.getsource(module)).body
        for line, text in pairwise(body):
            if isinstance(line, ast.Assign) and isinstance(line.targets[0], ast.Name) and line.targets[0].id in ALIASES:
                assert isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant), line.targets[0].id
                yield line.targets[0].id, ast.unparse(line.value), str(text.value.value)


# ---- plugins

_GROUP = re.compile(r"^# (.+)\.\n((?:__all__ \+= .+\n)+)", re.MULTILINE)
"""A group of names of `mooring.plugin`, with the comment above it."""


def _of_plugins() -> Iterator[str]:
    yield "## mooring.plugin"
    yield f"""\
Plugins import from `mooring.plugin` and from no other module: [Plugins](../plugins.md) shows how. These names are
promised. Their version is `mooring.plugin.API_VERSION`, now {code(plugin.API_VERSION)}; it rises when a name goes away
or changes so that plugins have to follow."""
    groups = _GROUP.findall(inspect.getsource(plugin))
    assert sum(text.count('"') // 2 for _, text in groups) == len(plugin.__all__) - 1, "each name is in a group"
    for title, text in groups:
        yield f"### {title.replace('`', '')}"
        rows = [[code(name), *_described(name)] for name in re.findall(r'"(\w+)"', text)]
        yield table(["name", "kind", "meaning"], rows)


def _described(name: str) -> tuple[str, str]:
    """What kind of thing a name of `mooring.plugin` is, and the first sentence of its docstring."""
    value = getattr(plugin, name)
    if inspect.isfunction(value):
        return code(signature(value)), prose(_first_sentence(inspect.getdoc(value) or ""))
    if isinstance(value, type):
        return "class", prose(_first_sentence(summary_of(value)))
    text = prose(_first_sentence(_text_below(name)))
    if isinstance(value, str | int) and not isinstance(value, Enum):
        return code(repr(value)), text
    return "type" if typing.get_origin(value) else code(type(value).__name__), text


def _text_below(name: str) -> str:
    """The text below the line that defines a name, in the module that `mooring.plugin` has it from."""
    imports = [line for line in ast.parse(inspect.getsource(plugin)).body if isinstance(line, ast.ImportFrom)]
    (home,) = [line.module for line in imports if name in [alias.asname or alias.name for alias in line.names]]
    assert home is not None
    for line, text in pairwise(ast.parse(inspect.getsource(import_module(home))).body):
        target = line.targets[0] if isinstance(line, ast.Assign) else getattr(line, "target", None)
        if isinstance(target, ast.Name) and target.id == name and isinstance(text, ast.Expr):
            return str(ast.literal_eval(text.value))
    return ""


def _first_sentence(text: str) -> str:
    return re.split(r"(?<=[.])\s|:?\n\s*\n", text, maxsplit=1)[0]


# ---- answers


def _of_every_answer() -> Iterator[str]:
    yield "Every answer is a value with a short `repr`, and is shown as tables in a notebook. Every answer has these:"
    rows = []
    for name in OF_EVERY_ANSWER:
        function = getattr(ClusterAnswer, name)
        rows.append([code(signature(function)), prose(inspect.getdoc(function) or "")])
    yield table(["call", "meaning"], rows)


def _answer(answer: type[ClusterAnswer]) -> Iterator[str]:
    yield f"### {answer.__name__}"
    yield paragraphs(summary_of(answer))
    texts = {**field_texts(answer.form), **field_texts(answer)}
    rows = [[code(name), code(kind), prose(texts.get(name, ""))] for name, kind in _fields(answer).items()]
    yield table(["field", "type", "meaning"], [*rows, *_properties(answer)])


def _fields(answer: type) -> dict[str, str]:
    """Fields with their types as written; class variables and private ones are left out."""
    found: dict[str, str] = {}
    for owner in reversed([base for base in answer.__mro__ if base.__module__.startswith("mooring.")]):
        found.update(_written_fields(owner))
    return found


def _written_fields(owner: type) -> Iterator[tuple[str, str]]:
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(owner))).body
    assert isinstance(body, ast.ClassDef)
    return _written(body)


def _written(body: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for line in body.body:
        if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name) and not line.target.id.startswith("_"):
            kind = ast.unparse(line.annotation).strip("'")
            if not kind.startswith("ClassVar"):
                yield line.target.id, kind


def _properties(answer: type) -> Iterator[list[str]]:
    for name, value in inspect.getmembers(answer, lambda member: isinstance(member, property)):
        if not name.startswith("_"):
            yield [code(name), code(signature(value.fget).partition(" -> ")[2]), prose(inspect.getdoc(value) or "")]
