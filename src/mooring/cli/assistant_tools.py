"""The questions of Mooring as tools for assistants: functions of texts that return a text of bounded length.

An assistant names no files: the person who starts `mooring mcp` chooses the cluster and the folder of studies, and manifests
come as YAML. So a question can read only what it was given. All of it is read-only: changes are tried on copies.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mooring.answers.capacity.capacity import capacity as ask_capacity
from mooring.answers.explain.explain import explain_named
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.pending.asked_pending import explain_pending
from mooring.answers.plan.plan import plan as ask_plan
from mooring.answers.study.study_file import read_study
from mooring.answers.study.study_plan import plan_study
from mooring.answers.study.studying import run_study
from mooring.answers.what_if.question import CHANGES
from mooring.answers.what_if.question import what_if as ask_what_if
from mooring.api.validation.problem import Problem, show
from mooring.cli.answering import answer_blocks, own_output
from mooring.cli.report import with_known_bars
from mooring.cli.terminal import spaced
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.yaml_reader import YamlFault, read_documents
from mooring.model.node import Node

MAX_CHARACTERS = 20_000
"""The longest answer: some 6,000 tokens of a language model. The beginning is kept: answers have the outcome first."""
MAX_INPUT_CHARACTERS = 200_000
"""The longest manifest."""
MAX_RUNS = 200
"""Runs of a study that one call makes at most."""
_MANIFESTS = ("apply", "config")
"""Changes whose value is a manifest."""


class AssistantTools:
    """The tools. One question is answered at a time. All methods raise InputError for what they are given.

    `load` reads the cluster: a file once, a live cluster for each question. `studies` is the folder with the studies that
    may be run; None: there are none.
    """

    def __init__(self, load: Callable[[], LoadedCluster], studies: Path | None = None) -> None:
        self._load, self._studies = load, studies
        self._lock = threading.Lock()

    @contextmanager
    def _asked(self) -> Iterator[LoadedCluster]:
        """The cluster, for one question. What plugins print does not get between the messages of the protocol."""
        with self._lock, own_output():
            yield self._load()

    def explain(self, name: str = "") -> str:
        """Say why a pod (`name`, `namespace/name`), a workload (`deployment/name`) or a pod group (`podgroup/name`) is where
        it is or pending, with what would place it, tried. Without a name: everything that is pending, by reason and by owner,
        and the change that would help most pods."""
        with self._asked() as loaded:
            return _text(explain_named(loaded, name) if name else explain_pending(loaded))

    def what_if(self, changes: Sequence[Mapping[str, str]]) -> str:
        """Say what changes would do to the cluster, in their order, without making them. Each is {"change": C, "value": V}:
        drain, cordon, uncordon, remove-nodes (a node, or a label such as pool=old), add-nodes (N=NODE, nodes like that node),
        scale (KIND/[NAMESPACE/]NAME=N), delete (KIND/[NAMESPACE/]NAME), taint, label, apply (manifests as YAML), config (a
        KubeSchedulerConfiguration as YAML)."""
        with self._asked() as loaded:
            return _text(ask_what_if(loaded, [_change(loaded, each) for each in changes]))

    def capacity(self, pod: str, gang: int | None = None, preempt: bool = False) -> str:
        """Count how many more of a pod fit, where, and what stops the next one. `pod` is YAML: a Pod or a workload. `gang`
        counts whole gangs of so many pods; `preempt` counts pods that fit by evicting others of lower priority as well."""
        with self._asked() as loaded:
            return _text(ask_capacity(loaded, _object(pod, "pod"), gang=gang, preempt=preempt))

    def plan(self, offers: str = "", apply: str = "", shrink: bool = False) -> str:
        """Find which nodes to add at least cost so that all pending pods fit, or with `shrink` which nodes can go. `offers`
        is YAML: a list of nodes with prices; `apply` is YAML: manifests that are to fit as well."""
        with self._asked() as loaded:
            offered = _objects(offers, "offers") if offers else None
            if offered is not None and len(offered) == 1 and "offers" in offered[0]:
                offered = offered[0]
            return _text(ask_plan(loaded, offered, apply=_objects(apply, "apply") if apply else (), shrink=shrink))

    def study(self, name: str = "", only: Mapping[str, Sequence[str]] | None = None) -> str:
        """Run a study of the laboratory and summarise it; without a name, list the studies. `only` chooses runs, such as
        {"seed": ["1"]}."""
        found = {path.stem: path for path in sorted((self._studies or Path()).glob("*.yaml"))} if self._studies else {}
        if not name:
            return "\n".join(found) or "there are no studies: start `mooring mcp` with --studies FOLDER"
        if name not in found:
            raise InputError([Problem("name", show(name), f"one of: {', '.join(found) or 'none'}")])
        with self._lock, own_output():
            read = read_study(found[name])
            runs = len(plan_study(read, only))
            if runs > MAX_RUNS:
                raise InputError(f"the study has {runs} runs, and a call makes {MAX_RUNS} at most: choose with `only`")
            return _text(run_study(read, only=only, processes=1))


# ---- what tools are given


def _documents(text: str, argument: str) -> list[Any]:
    """The documents of a YAML text of limited size. Raises InputError."""
    if len(text) > MAX_INPUT_CHARACTERS:
        raise InputError([Problem(argument, f"{len(text):,} characters", f"at most {MAX_INPUT_CHARACTERS:,}")])
    try:
        return [value for value in read_documents(text) if value is not None]
    except YamlFault as fault:
        raise InputError([Problem(argument, f"line {fault.line}: {fault}")]) from None


def _objects(text: str, argument: str) -> list[Any]:
    """The objects of a YAML text, or of a list in it. A plain text is refused: it would be the name of a file."""
    documents = _documents(text, argument)
    items = documents[0] if len(documents) == 1 and isinstance(documents[0], list) else documents
    if not items or not all(isinstance(item, dict) for item in items):
        raise InputError([Problem(argument, show(text[:80]), "objects as YAML")])
    return items


def _object(text: str, argument: str) -> Any:
    items = _objects(text, argument)
    return items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}


def _change(loaded: LoadedCluster, written: Mapping[str, str]) -> tuple[str, Any]:
    """A change as `what_if` takes it. A text never names a file."""
    name, value = written.get("change", ""), written.get("value", "")
    if not isinstance(name, str) or not isinstance(value, str) or name not in CHANGES:
        raise InputError([Problem("changes", show(dict(written)), f"a change ({', '.join(CHANGES)}) and its value")])
    if name in _MANIFESTS:
        items = _objects(value, name)
        return name, items[0] if name == "config" else items
    if name == "add-nodes":
        template = value.partition("=")[2]
        if not any(isinstance(item, Node) and item.name == template for item in loaded.objects):
            raise InputError([Problem(name, show(value), "N=NODE with the name of a node of the cluster")])
    return name, value


# ---- what they answer


def _text(answer: ClusterAnswer) -> str:
    """The answer as the commands print it, within the limit."""
    return bounded("\n".join(map(with_known_bars, spaced(answer_blocks(answer, wide=False)))))


def bounded(text: str) -> str:
    """The whole lines at the beginning of a text that are within the limit."""
    if len(text) <= MAX_CHARACTERS:
        return text
    end = max(text.rfind("\n", 0, MAX_CHARACTERS), 0) or MAX_CHARACTERS
    left = text.count("\n", end)
    return f"{text[:end]}\n... {left} lines more: ask about a part of it"
