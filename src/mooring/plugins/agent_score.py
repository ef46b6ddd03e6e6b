"""AgentScore: lets a policy choose the node of each pod, or the weights of the score plugins.

A policy is a Python function or a model in ONNX. It gets an observation and answers with an action. The environment of
`mooring.gym` trains policies through this plugin, so that a trained policy places pods in a simulation and in `mooring
run` as it did in training.

An observation has the nodes and the pod of a decision as arrays of numbers, and the actions that are open. Nodes stand
in the order of their names, so that an agent sees the same arrays in training, in a simulation and on a live cluster,
whatever the order in which the nodes came.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle, Rows, Scores
from mooring.framework.contract.special_points import TotalsPlugin
from mooring.kit.bounded_reading import read_file
from mooring.model.pod import Pod

Floats = NDArray[np.float32]
Observation = dict[str, NDArray[Any]]
"""By name of an array: `nodes`, `pod` and `action_mask`."""

SPARE_COLUMNS = 1
"""Columns of `nodes` beside the two of each resource: the share of pod slots that is free."""

LARGEST_REQUEST = 2.0
"""Requests beyond twice the largest node all look alike: they fit nowhere."""


FEW = 8
"""Up to this many touched rows are worked out one by one."""


class DecisionObserver:
    """Builds observations. What follows from the nodes alone is kept until a node changes.

    `nodes` has a row for each node: for each resource the allocatable and the free amount, as parts of the largest
    allocatable amount of a node; then the free share of pod slots. All are from -1 (overcommitted) to 1. `pod` has the
    request of each resource as a part of the same amount. `action_mask` is 1 where a node passed all filters; its last entry,
    "let the scores decide", is always 1.
    """

    def __init__(self, resources: Sequence[str] = ("cpu", "memory")) -> None:
        self.resources = tuple(resources)
        self.rows: NDArray[np.intp] = np.zeros(0, np.intp)
        """The rows of the node table in the order of the names of their nodes."""
        self._state: object = None
        self._seen: tuple[object, Floats, Floats] | None = None
        """The last observation, with the moment that it shows."""
        self._last: Floats | None = None
        """The columns of nodes at `_position` in the log of touched rows; None: the nodes have changed since."""
        self._position = -1
        self._scale: NDArray[np.float64] = np.ones(len(self.resources))
        self._allocatable: NDArray[np.float64] = np.zeros((0, len(self.resources)))
        self._slots: NDArray[np.float64] = np.ones(0)
        self._place: NDArray[np.intp] = np.zeros(0, np.intp)

    def observe(self, nodes: NodeTable, pod: Pod, rows: Rows) -> Observation:
        """The observation for a pod that may go to these rows."""
        self.follow(nodes)
        mask = np.zeros(len(self.rows) + 1, np.int8)
        mask[self._place[rows]] = 1  # rows without a node have the last place
        mask[-1] = 1
        # Hot: the environment looks at a pod before its attempt, and the plugin in the attempt. 40 µs for 100 nodes.
        moment = pod.id, nodes.touches.end, self._state
        if self._seen is None or self._seen[0] != moment:
            self._seen = moment, self._followed_columns(nodes), self._requests(pod)
        return {"nodes": self._seen[1], "pod": self._seen[2], "action_mask": mask}

    def _followed_columns(self, nodes: NodeTable) -> Floats:
        """The columns of nodes, in an array that nobody changes later. Hot: a decision touches one row, and the others are
        copied from the last observation. That takes 8 µs instead of 40 for 100 nodes."""
        touched = nodes.touches.since(self._position)
        if touched is None or len(touched) > FEW or self._last is None:
            self._last = self._node_columns(nodes)
        elif touched:
            self._last = self._last.copy()
            for row in touched:
                if (place := int(self._place[row])) < len(self.rows):
                    self._last[place] = self._node_row(nodes, row, place)
        self._position = nodes.touches.end
        return self._last

    def _node_row(self, nodes: NodeTable, row: int, place: int) -> list[float]:
        """The columns of one node."""
        found, amounts = [], nodes.amounts
        for name, allocatable, scale in zip(
            self.resources, self._allocatable[place].tolist(), self._scale.tolist(), strict=True
        ):
            free = allocatable - int(amounts.requested[amounts.resource(name), row])
            found += [allocatable / scale, free / scale]
        slots = float(self._slots[place])
        found.append((slots - int(nodes.pod_count[row])) / max(slots, 1))
        return [min(max(number, -1), 1) for number in found]

    def _node_columns(self, nodes: NodeTable) -> Floats:
        """The columns of all nodes."""
        order, amounts = self.rows, nodes.amounts
        columns = np.empty((len(order), 2 * len(self.resources) + SPARE_COLUMNS), np.float32)
        for at, name in enumerate(self.resources):
            allocatable, scale = self._allocatable[:, at], self._scale[at]
            columns[:, 2 * at] = allocatable / scale
            columns[:, 2 * at + 1] = (allocatable - amounts.requested[amounts.resource(name)][order]) / scale
        columns[:, -1] = (self._slots - nodes.pod_count[order]) / np.maximum(self._slots, 1)
        return np.clip(columns, -1, 1, out=columns)

    def _requests(self, pod: Pod) -> Floats:
        asked = [pod.shape.request.get(name, 0) for name in self.resources]
        parts = [min(each / scale, LARGEST_REQUEST) for each, scale in zip(asked, self._scale.tolist(), strict=True)]
        return np.array(parts, np.float32)

    def follow(self, nodes: NodeTable) -> None:
        """Work out what follows from the nodes, if one of them changed."""
        state = (id(nodes), nodes.node_set_version, nodes.node_touches.end, nodes.amounts.resources_version)
        if state == self._state:
            return
        indices = [nodes.amounts.resource(name) for name in self.resources]  # a resource may get its place only now
        state = (*state[:3], nodes.amounts.resources_version)
        self.rows = np.array([row for row in nodes.rows_by_name().tolist() if nodes.alive[row]], np.intp)
        columns = [nodes.amounts.allocatable[index][self.rows] for index in indices]
        self._allocatable = np.array(columns, np.float64).T.reshape(len(self.rows), len(indices))
        self._scale = np.maximum(self._allocatable.max(axis=0, initial=0), 1)
        self._slots = nodes.allowed_pods[self.rows].astype(np.float64)
        self._place = np.full(nodes.capacity, len(self.rows), np.intp)
        self._place[self.rows] = np.arange(len(self.rows))
        self._state, self._last = state, None


Action = int | np.integer[Any] | NDArray[Any] | None
"""The place of a node in the order of names, or one more than the last place: let the scores decide, as None does. An array
has a preference for each of these (action `node`), or a weight for each score plugin (action `weights`). A node that is not
open to the pod lets the scores decide, too."""
Policy = Callable[[Observation], Action]

NODE, WEIGHTS = "node", "weights"
PRECISION = 1_000_000
"""Weights are numbers with a fraction, and totals are integers: totals count millionths."""
LARGEST_WEIGHT = 1e6
"""Totals of all plugins together stay far below 2^63."""


class AgentScore(TotalsPlugin):
    """Arguments: `policy: FILE.py:FUNCTION` or `onnx: FILE`; `action: node` (the default) or `weights`; `resources`, the
    resources that observations have."""

    name = "AgentScore"

    def __init__(self, args: Any, handle: Handle) -> None:
        written = _checked(args)
        self.action: str = written.get("action", NODE)
        self.observer = DecisionObserver(written.get("resources", ("cpu", "memory")))
        self.policy: Policy = _policy(written)
        self.is_told = False
        """Whether `told` is the action of the next attempt. The environment sets both: it has shown the observation."""
        self.told: Action = None

    def totals(
        self, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
    ) -> Scores | None:
        action = self.told if self.is_told else self._asked(context, rows)
        if action is None:
            return None
        if self.action == WEIGHTS:
            return weighed(np.asarray(action, np.float64), scores())
        if action == len(self.observer.rows):
            return None
        totals: Scores = (np.arange(context.nodes.height)[rows] == self.observer.rows[action]).astype(np.int64)
        return totals

    def _asked(self, context: SchedulingContext, rows: Rows) -> Action:
        """The answer of the policy: a place that is open, or weights."""
        observation = self.observer.observe(context.nodes, context.pod, rows)
        action = self.policy(observation)
        if action is None or self.action == WEIGHTS:
            return action
        return chosen(action, observation["action_mask"])


def chosen(action: Any, mask: NDArray[Any]) -> int | None:
    """The place that an action names: itself, or the highest preference among those that the mask leaves open. None: the
    place is not open, or there is no such place."""
    values = np.asarray(action)
    if values.ndim == 0:
        place = int(values)
        return place if 0 <= place < len(mask) and mask[place] else None
    if values.shape != mask.shape:
        raise ValueError(f"{values.shape} preferences for {len(mask)} actions")
    return int(np.argmax(np.where(mask.astype(bool), values, -np.inf)))


def weighed(weights: NDArray[np.float64], scores: Mapping[str, Scores]) -> Scores:
    """The sum of the scores with these weights, in the order of the profile."""
    if weights.shape != (len(scores),):
        raise ValueError(f"{weights.shape} weights for {len(scores)} score plugins: {', '.join(scores)}")
    if not np.all(np.abs(weights) <= LARGEST_WEIGHT):
        raise ValueError(f"weights must be numbers from {-LARGEST_WEIGHT:g} to {LARGEST_WEIGHT:g}")
    total = sum((weight * given for weight, given in zip(weights, scores.values(), strict=True)), np.float64(0))
    totals: Scores = np.rint(PRECISION * np.asarray(total)).astype(np.int64)
    return totals


# ---- arguments


def _checked(args: Any) -> dict[str, Any]:
    """The arguments. Raises ValueError for any that cannot be used."""
    written = {} if args is None else args
    if not isinstance(written, dict):
        raise ValueError("args: must be an object")
    unknown = written.keys() - {"policy", "onnx", "action", "resources"}
    if unknown:
        raise ValueError(f"unknown fields: {', '.join(sorted(unknown))}; known are policy, onnx, action, resources")
    if written.get("action", NODE) not in (NODE, WEIGHTS):
        raise ValueError(f"action: Unsupported value: {written['action']!r}: supported values: {NODE!r}, {WEIGHTS!r}")
    resources = written.get("resources", ["cpu"])
    if not isinstance(resources, list | tuple) or not resources or not all(isinstance(r, str) for r in resources):
        raise ValueError("resources: must be a list of names of resources")
    return written


def _policy(written: Mapping[str, Any]) -> Policy:
    if "policy" in written and "onnx" in written:
        raise ValueError("policy and onnx: give one of them")
    if "onnx" in written:
        return onnx_policy(str(written["onnx"]))
    if "policy" in written:
        return python_policy(str(written["policy"]))
    return lambda observation: None


def python_policy(place: str) -> Policy:
    """The function that `FILE.py:FUNCTION` names. Raises ValueError."""
    file, _, name = place.rpartition(":")
    if not file or not name:
        raise ValueError(f"policy: Invalid value: {place!r}: write FILE.py:FUNCTION")
    scope: dict[str, Any] = {"__name__": f"mooring_policy_{Path(file).stem}", "__file__": file}
    try:
        exec(compile(read_file(file), file, "exec"), scope)
    except Exception as error:  # foreign code may raise anything
        raise ValueError(f"policy: {file} cannot be loaded: {type(error).__name__}: {error}") from error
    found = scope.get(name)
    if not callable(found):
        raise ValueError(f"policy: {file} has no function {name!r}")
    policy: Policy = found
    return policy


def onnx_policy(file: str) -> Policy:
    """A model in ONNX: it takes arrays of the observation by their names, as a batch of one, and its first output is an
    action or an array of preferences or weights. Raises ValueError."""
    try:
        import onnxruntime
    except ImportError:
        raise ValueError("onnx: needs the package onnxruntime: pip install 'mooring[gym]'") from None
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1  # sums in one order, and no threads beside the one that schedules
    try:
        session = onnxruntime.InferenceSession(read_file(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # the runtime has errors of its own
        raise ValueError(f"onnx: {file} cannot be loaded: {error}") from error
    wanted = [each.name for each in session.get_inputs()]

    def policy(observation: Observation) -> Action:
        first = session.run(None, {name: observation[name][None].astype(np.float32) for name in wanted})[0]
        action: NDArray[Any] = np.asarray(first)[0]
        return action

    return policy


PLUGINS = (AgentScore,)
