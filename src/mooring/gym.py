"""Environments for agents that learn to place pods, with the interface of Gymnasium (`pip install 'mooring[gym]'`).

    import mooring.gym
    env = mooring.gym.SchedulingEnv("cluster.yaml", generate="load.yaml", reward=mooring.gym.used_nodes)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))

`gymnasium.make("mooring/Scheduling-v0", cluster=...)` makes the same environment, and `gymnasium.make_vec` several of
them. docs/laboratory.md shows how an agent is trained, and how `mooring run` uses it.

An episode is a simulated day: pods arrive, wait, are preempted and finish on a virtual clock, and the profile with its
plugins decides as always. One step is one decision about one pod. Before each attempt the environment shows the pod and
the nodes (`plugins/agent_score.py`). The action goes to the plugin AgentScore, which has the last word about the node.
So filters, preemption and binding are those of the scheduler, and a policy that was trained here runs in `mooring run`
with the same plugin. Rewards are functions of the outcome of a step; write your own in the same form.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

import gymnasium
import msgspec
import numpy as np

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.runner import Runner
from mooring.framework.config.types import KubeSchedulerConfiguration, PluginConfig, PluginEntry
from mooring.framework.kept.feasible import PASSED
from mooring.inputs.arrivals import Arrival, read_arrivals
from mooring.inputs.generated_load import GeneratedLoad
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import LoadPlan, read_load_plan
from mooring.inputs.loaded_cluster import Config, Objects, Plugins, Source, Written, load
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.plugins.agent_score import (
    LARGEST_REQUEST,
    NODE,
    SPARE_COLUMNS,
    WEIGHTS,
    Action,
    AgentScore,
    Observation,
    chosen,
)
from mooring.sim.day import Day
from mooring.sim.fragmentation import TypicalRequests, weighed_shapes

__all__ = ["ENVIRONMENT", "Fragmentation", "SchedulingEnv", "StepOutcome", "placed", "used_nodes"]

ENVIRONMENT = "mooring/Scheduling-v0"
"""The name for `gymnasium.make` and `gymnasium.make_vec`."""

TYPICAL = 24
"""How many different requests count as typical: the most frequent ones."""


@dataclass(frozen=True, slots=True)
class StepOutcome:
    """The outcome of a step, from which a reward is worked out."""

    pod: Pod
    node: str | None
    """The node that the pod was bound to; None: it has none yet."""
    nodes: NodeTable
    """The nodes as columns, after the step."""
    passed_s: float
    """The simulated time since the episode began."""
    preempted: int
    """How many pods lost their nodes in this step."""


def placed(outcome: StepOutcome) -> float:
    """1 for a pod that was bound, less 1 for each pod that was preempted for it."""
    return float(outcome.node is not None) - outcome.preempted


def used_nodes(outcome: StepOutcome) -> float:
    """-1 for a pod that is the first one on its node: the fewer nodes are in use, the better."""
    if outcome.node is None:
        return 0.0
    return -float(outcome.nodes.pod_count[outcome.nodes.row_book[outcome.node]] == 1)


class Fragmentation:
    """Less the growth of fragmentation: the share of a resource that is free on nodes where a typical pod does not fit.

    The measure is an expectation over the requests of `typical` pods (files or manifests), weighed by how often they occur;
    pods of DaemonSets and pods with claims do not count.
    One object serves one environment.
    """

    def __init__(self, typical: Objects, resources: Sequence[str] = ("cpu", "memory"), of: str = "cpu") -> None:
        """Raises InputError for pods that cannot be used."""
        shapes = weighed_shapes((pod, 1) for pod in load(typical).pods())
        self._typical, self._of = TypicalRequests(shapes, resources, TYPICAL), of
        if not len(self._typical):
            raise InputError("typical: there is no pod to measure fragmentation with")
        self._before: tuple[int, float] | None = None

    def __call__(self, outcome: StepOutcome) -> float:
        now = self.measure(outcome.nodes)
        before = self._before[1] if self._before is not None and self._before[0] == id(outcome.nodes) else now
        self._before = id(outcome.nodes), now
        return before - now

    def measure(self, nodes: NodeTable) -> float:
        """The expected share of the allocatable amount that is free where a typical pod does not fit."""
        return self._typical.unusable_share(nodes, self._of)


Draw = Callable[[np.random.Generator], Sequence[Written]]
"""Draws the arrivals of an episode."""
Arrivals = Source | Sequence[Written] | Draw
"""A file of arrivals, arrivals as dictionaries, or a function that draws them for an episode."""


class EpisodeOptions(TypedDict, total=False):
    """The pods that come to the cluster over time, and how they are scheduled."""

    arrivals: Arrivals
    generate: Source | Written
    config: Config
    plugins: Plugins


Reward = Callable[[StepOutcome], float]


class SchedulingEnv(gymnasium.Env[Observation, Any]):
    """Decisions of a scheduler as steps.

    `cluster` is what `mooring.load` takes. Its pending pods come at the beginning, in an order that the seed of the episode
    decides; `arrivals` and `generate` add others over time. A plan of `generate` draws another load for each seed.

    | `action` | an action is |
    |---|---|
    | `"node"` | the place of a node in the order of names; the last number lets the scores decide |
    | `"weights"` | a weight for each score plugin of the profile, in the order of `score_plugins` |

    An action that the mask forbids lets the scores decide, and `info["refused"]` is True. `info["action_mask"]` is the mask
    of the observation.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 (Gymnasium declares it as a plain attribute)

    def __init__(
        self,
        cluster: Objects,
        *,
        action: str = NODE,
        resources: Sequence[str] = ("cpu", "memory"),
        reward: Reward = placed,
        until_s: float | None = None,
        **workload: Unpack[EpisodeOptions],
    ) -> None:
        """`reward` gets the outcome of each step. An episode ends when nothing is left to decide, or is truncated after
        `until_s` simulated seconds. Raises InputError, ConfigError."""
        if action not in (NODE, WEIGHTS):
            raise InputError(f'action must be "{NODE}" or "{WEIGHTS}", not {action!r}')
        self._loaded = load(cluster, workload.get("config"), workload.get("plugins", ()))
        arrivals, plan = workload.get("arrivals"), workload.get("generate")
        self._arrivals: Draw | list[Arrival] | None
        self._arrivals = arrivals if callable(arrivals) or arrivals is None else self._read(arrivals)
        self._plan = None if plan is None else read_load_plan(plan)
        self._config = with_agent(self._loaded.config, action, resources)
        self._reward, self._kind = reward, action
        self._until_ns = None if until_s is None else int(until_s * NS_PER_S)
        self._observation: Observation = {}
        self._next: Pod | None = None
        self._day, self._agents = self._begin(np.random.default_rng(0))
        self._set_spaces(len(resources))

    @property
    def nodes(self) -> list[str]:
        """The names of the nodes, in the order of actions and of rows of the observation."""
        table = self._table()
        return [table.names[row] for row in self._agents[0].observer.rows]

    @property
    def score_plugins(self) -> list[str]:
        """The score plugins of the first profile, in the order of the weights of an action."""
        first = self._runners(self._day)[0]
        return [plugin.name for plugin in first.scores if plugin is not first.judge]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin an episode. The same seed gives the same pods in the same order."""
        super().reset(seed=seed, options=options)
        self._day, self._agents = self._begin(self.np_random)
        self._advance()
        return self._observation, self._info(False)

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide about the pod of the last observation, and go on to the next decision that is open."""
        pod, simulated = self._next, self._day.simulated
        if pod is None:
            raise RuntimeError("the episode is over, or has not begun: call reset()")
        told = chosen(action, self._observation["action_mask"]) if self._kind == NODE else action
        evicted = len(simulated.evictions)
        self._attempt(told)
        bound = simulated.scheduler.placed(pod.id)
        node = bound.spec.node_name if bound is not None else None
        passed_s, preempted = simulated.passed_ns() / NS_PER_S, len(simulated.evictions) - evicted
        reward = float(self._reward(StepOutcome(pod, node, self._table(), passed_s, preempted)))
        goes_on = self._advance()
        is_truncated = not goes_on and self._until_ns is not None and self._day.has_more()
        info = self._info(told is None)
        info["node"] = node
        return self._observation, reward, not goes_on and not is_truncated, is_truncated, info

    # ---- an episode

    def _begin(self, chance: np.random.Generator) -> tuple[Day, list[AgentScore]]:
        """A day that no pod has come to yet, and the plugin of each profile that takes the actions."""
        objects, stream = self._drawn(chance)
        loaded = self._loaded
        day = Day(objects, stream, self._config, loaded.registry, loaded.gates, names_placements=False)
        agents = [agent for runner in self._runners(day) if isinstance(agent := runner.judge, AgentScore)]
        for agent in agents:
            agent.is_told, agent.observer = True, agents[0].observer
        agents[0].observer.follow(day.simulated.cluster.nodes)
        return day, agents

    def _drawn(self, chance: np.random.Generator) -> tuple[list[Any], Sequence[Arrival] | GeneratedLoad]:
        """The objects of an episode, with the pending pods in a drawn order, and the pods that arrive later."""
        pending = self._loaded.pending()
        order = chance.permutation(len(pending)).tolist()
        ids = {pod.id for pod in pending}
        objects = [item for item in self._loaded.objects if not isinstance(item, Pod) or item.id not in ids]
        objects += [_without_time(pending[at]) for at in order]
        if self._plan is not None:
            plan: LoadPlan = msgspec.structs.replace(self._plan, seed=int(chance.integers(2**31)))
            generated = GeneratedLoad(plan, objects)
            return [*objects, *generated.nodes], generated
        return objects, self._read(self._arrivals(chance)) if callable(self._arrivals) else self._arrivals or ()

    def _read(self, arrivals: Source | Sequence[Written]) -> list[Arrival]:
        return read_arrivals(arrivals, self._loaded.objects, self._loaded.gates)

    def _advance(self) -> bool:
        """Go on to the next pod with a node that is open to it. Attempts that leave nothing to decide are made on the way:
        pods that fit nowhere, and pod groups. False at the end of the episode."""
        self._next = None
        while self._day.until_attempt(self._until_ns):
            pod = self._day.simulated.scheduler.next_pod()
            begun = None if pod is None else self._day.simulated.begin_attempt(pod)
            rows = None if begun is None else np.flatnonzero(begun.verdicts.first == PASSED)
            if pod is not None and rows is not None and len(rows):
                self._next = pod
                self._observation = self._agents[0].observer.observe(self._table(), pod, rows)
                return True
            self._attempt(None)
        return False

    def _attempt(self, action: Action) -> None:
        """Make the attempt; the plugin answers with this action if it is asked."""
        for agent in self._agents:
            agent.told = action
        self._day.attempt()

    # ---- what Gymnasium wants to know

    def _set_spaces(self, resources: int) -> None:
        spaces = gymnasium.spaces
        count = len(self._agents[0].observer.rows)
        arrays: dict[str, gymnasium.spaces.Box] = {
            "nodes": spaces.Box(-1, 1, (count, 2 * resources + SPARE_COLUMNS), np.float32),
            "pod": spaces.Box(0, LARGEST_REQUEST, (resources,), np.float32),
            "action_mask": spaces.Box(0, 1, (count + 1,), np.int8),
        }
        self.observation_space = spaces.Dict({**arrays})  # type: ignore[assignment]  # it is a Mapping, and no dict
        if self._kind == NODE:
            self.action_space = spaces.Discrete(count + 1)
        else:
            self.action_space = spaces.Box(-1, 1, (len(self.score_plugins),), np.float32)
        empty: Observation = {name: np.zeros(space.shape, space.dtype) for name, space in arrays.items()}
        self._observation = {**empty, "action_mask": np.ones(count + 1, np.int8)}

    def _info(self, refused: bool) -> dict[str, Any]:
        pod = self._next.key if self._next is not None else ""
        return {"pod": pod, "action_mask": self._observation["action_mask"], "refused": refused}

    def _table(self) -> NodeTable:
        return self._day.simulated.cluster.nodes

    def _runners(self, day: Day) -> list[Runner]:
        """The profiles in the order of the configuration."""
        found = (day.simulated.scheduler.runner(profile.scheduler_name or "") for profile in self._config.profiles)
        return [runner for runner in found if runner is not None]


def with_agent(config: KubeSchedulerConfiguration, action: str, resources: Sequence[str]) -> KubeSchedulerConfiguration:
    """The configuration with AgentScore in every profile, waiting for actions of this kind."""
    config = deepcopy(config)
    for profile in config.profiles:
        enabled = profile.plugins.multi_point.enabled
        if all(entry.name != AgentScore.name for entry in enabled):
            enabled.append(PluginEntry(AgentScore.name, 1))
        others = [each for each in profile.plugin_config if each.name != AgentScore.name]
        args = {"action": action, "resources": [*resources]}
        profile.plugin_config = [*others, PluginConfig(AgentScore.name, args)]
    return config


def _without_time(pod: Pod) -> Pod:
    """The pod without its creation time, by which pending pods would come in the same order in every episode."""
    metadata = msgspec.structs.replace(pod.metadata, creation_timestamp=None)
    return Pod(metadata=metadata, spec=pod.spec, status=pod.status)


if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, "mooring.gym:SchedulingEnv")
