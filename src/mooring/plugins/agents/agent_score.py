"""AgentScore: lets a policy choose the node of each pod, or the weights of the score plugins.

A policy is a Python function or a model in ONNX. It gets an observation (observation.py) and answers with an action. The
environment of `mooring.gym` trains policies through this plugin, so that a trained policy places pods in a simulation and in
`mooring run` as it did in training.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle, Rows, Scores
from mooring.framework.contract.totals_point import TotalsPlugin
from mooring.kit.bounded_reading import read_file
from mooring.plugins.agents.observation import DecisionObserver, Observation

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
