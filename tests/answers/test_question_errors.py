"""The Python interface says what is wrong with its arguments: one class of errors, a line for each problem."""

import inspect
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.answers.notebook import QuestionedCluster, fits

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "cluster.yaml")
CALLS: dict[str, Callable[..., Any]] = {
    "load": mooring.load,
    "simulate": mooring.simulate,
    **{
        name: call
        for name, call in vars(QuestionedCluster).items()
        if inspect.isfunction(call) and not name.startswith("_") and len(inspect.signature(call).parameters) > 1
    },
}
NEVER = object()
"""No argument may be this."""


@pytest.fixture(scope="module")
def cluster() -> QuestionedCluster:
    return mooring.load(EXAMPLE)


A_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "x"},
    "spec": {"containers": [{"name": "c", "image": "i"}]},
}
WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "a change that is one text": (
        lambda c: c.what_if("drain b-1"),
        'changes: Invalid value: "drain b-1": must be a pair of a change and its value, such as ("drain", "node-1")',
    ),
    "a change of which the value is a number": (
        lambda c: c.what_if(("drain", 5)),
        "drain: 5 must be a text, as the option of `mooring what-if` takes it",
    ),
    "a change that does not exist": (
        lambda c: c.what_if(("drian", "b-1")),
        "no change 'drian'; the changes are drain, cordon, uncordon, remove-nodes, add-nodes, scale, apply, delete, config, "
        "taint, label; did you mean drain?",
    ),
    "new nodes that are a number": (
        lambda c: c.what_if(("add-nodes", 5)),
        "add-nodes: 5 must be N=TEMPLATE, or a pair of a number and a node or a dictionary",
    ),
    "applied objects that are a number": (
        lambda c: c.what_if(("apply", 5)),
        "apply: objects are files, folders and dictionaries, not 5",
    ),
    "a configuration that is not there": (
        lambda c: c.what_if(("config", "/nowhere")),
        "/nowhere: cannot be read: No such file or directory",
    ),
    "a pod that does not exist": (lambda c: c.explain("zz"), "no pod 'zz' among 12 pods"),
    "no decision": (lambda c: c.explain("web-0", decisions=0), "decisions: Invalid value: 0: must be at least 1"),
    "too few copies": (lambda c: c.capacity({}, most=0), "most: Invalid value: 0: must be from 1 to 1000000"),
    "True as a number": (
        lambda c: c.capacity({}, most=True),
        "most: Invalid value: true: must be a whole number",
    ),
    "a time without a unit": (
        lambda c: c.simulate(until="soon"),
        "until: Invalid value: 'soon': must be seconds, or a duration such as 90s, 15m, 24h",
    ),
    "no process": (
        lambda c: c.compare(["default", "cluster"], processes=0),
        "processes: Invalid value: 0: must be at least 1",
    ),
    "a file to compare with that is not there": (
        lambda c: c.compare(["/nowhere"]),
        "/nowhere: cannot be read: No such file or directory",
    ),
    "a plan of runs that is none": (
        lambda c: c.compare(),
        "nothing to compare: name a second configuration, or vary something (--vary seed=1,2,3)",
    ),
    "a feature gate that does not exist": (
        lambda c: mooring.load(EXAMPLE, feature_gates={"Nope": True}),
        "unrecognized feature gate: Nope",
    ),
    "a kubeconfig that is not there": (
        lambda c: mooring.load(kubeconfig="/nowhere"),
        "/nowhere: there is no such file",
    ),
    "a configuration that is a folder": (
        lambda c: mooring.load(EXAMPLE, config="/"),
        "/: cannot be read: Is a directory",
    ),
    "a table that does not exist": (
        lambda c: c.capacity({**A_POD}).to_frame("nope"),
        "to_frame: no table 'nope'; this answer has ",
    ),
}


@pytest.mark.parametrize(("ask", "text"), WRONG.values(), ids=WRONG)
def test_wrong_input_is_one_error_with_one_line(
    ask: Callable[[Any], object], text: str, cluster: QuestionedCluster
) -> None:
    with pytest.raises(mooring.InputError) as caught:
        ask(cluster)
    assert str(caught.value).startswith(text) and "\n" not in str(caught.value)
    assert caught.value.__suppress_context__ or caught.value.__context__ is None, "a notebook would print both errors"


def arguments() -> list[tuple[str, str]]:
    return [
        (name, each) for name, call in CALLS.items() for each in inspect.signature(call).parameters if each != "self"
    ]


@pytest.mark.parametrize(("call", "argument"), arguments())
def test_every_argument_of_every_call_is_checked(call: str, argument: str, cluster: QuestionedCluster) -> None:
    function, given = CALLS[call], {argument: NEVER}
    ask = function if function in (mooring.load, mooring.simulate) else getattr(cluster, call)
    needed = {
        name: "x"
        for name, each in inspect.signature(ask).parameters.items()
        if each.default is each.empty and each.kind is not each.VAR_POSITIONAL
    }
    is_many = inspect.signature(ask).parameters[argument].kind is inspect.Parameter.VAR_POSITIONAL
    with pytest.raises(mooring.InputError, match=rf"^{argument}: Invalid value: object: must be \w+"):
        ask(NEVER) if is_many else ask(**{**needed, **given})


FITTING: list[tuple[object, Any, bool]] = [
    (1, int, True),
    (True, int, False),
    (1, float, True),
    ("1", float, False),
    (None, str | None, True),
    ("a", Sequence[str], False),
    ({"a": 1}, Iterable[str], False),
    (["a"], Sequence[str], True),
    (["a", 1], Sequence[str], False),
    ((x for x in "ab"), Iterable[str], True),
    ((x for x in "ab"), Sequence[str], False),
    ({"a": 1}, Mapping[str, int], True),
    ({"a": "b"}, Mapping[str, int], False),
    (("a", 1), tuple[str, Any], True),
    (("a",), tuple[str, Any], False),
    (Path("x"), str | Path, True),
    (bool, type[int], True),
    (str, type[int], False),
]


@pytest.mark.parametrize(("value", "hint", "is_fit"), FITTING)
def test_values_are_held_against_annotations(value: object, hint: Any, is_fit: bool) -> None:
    assert fits(value, hint) is is_fit


def test_without_pandas_a_frame_says_what_to_install(
    cluster: QuestionedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(
        ModuleNotFoundError, match=r"^to_frame needs pandas, which is not installed: pip install 'mooring\[frames\]'$"
    ):
        cluster.simulate().to_frame()


def test_dir_lists_public_names_before_they_are_loaded() -> None:
    code = "import mooring, sys; print(*dir(mooring)); print('mooring.answers.notebook' in sys.modules)"
    listed, is_loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    public = [name for name in listed.split() if not name.startswith("_")]
    assert public == ["ArrivalsError", "InputError", "QuestionedCluster", "load", "simulate", "study"]
    assert is_loaded == "False"
