"""The environment for agents: Gymnasium's own checks, episodes by seed, and the same placements wherever a policy runs."""

import warnings
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import mooring.gym
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import load
from mooring.plugin import NodeView, PlainPlugin, Pod
from mooring.plugins.agent_score import DecisionObserver
from mooring.sim.simulation import Simulation
from virtual_cluster import VirtualCluster

POLICY = '''
import numpy as np

def fill(observation):
    """Prefer nodes with little free memory, and of those with as much the ones with little free cpu."""
    free_cpu, free_memory = observation["nodes"][:, 1], observation["nodes"][:, 3]
    return np.append(-(2 * free_memory + free_cpu), -np.inf)
'''
Json = dict[str, Any]


def a_node(name: str, cpu: int) -> Json:
    allocatable = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {
            "allocatable": allocatable,
            "capacity": allocatable,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def a_pod(name: str, cpu_milli: int, memory_mi: int) -> Json:
    requests = {"cpu": f"{cpu_milli}m", "memory": f"{memory_mi}Mi"}
    container = {"name": "c", "image": "i", "resources": {"requests": requests}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


NODES = [a_node("c", 4), a_node("a", 8), a_node("b", 2)]
PODS = [a_pod(f"p{at}", 250 * (1 + at % 4), 512 * (1 + at % 3)) for at in range(12)]


def an_env(**options: Any) -> mooring.gym.SchedulingEnv:
    return mooring.gym.SchedulingEnv([*NODES, *PODS], **options)


def played(env: mooring.gym.SchedulingEnv, choose: Any, seed: int = 1) -> list[tuple[str, str | None]]:
    """The pods of an episode in the order of their steps, with their nodes."""
    observation, info = env.reset(seed=seed)
    taken, is_over = [], False
    while not is_over:
        pod = info["pod"]
        observation, _, terminated, truncated, info = env.step(choose(observation))
        taken.append((pod, info["node"]))
        is_over = terminated or truncated
    return taken


def last(observation: Json) -> int:
    """Let the scores decide."""
    return len(observation["action_mask"]) - 1


@pytest.mark.parametrize("action", ["node", "weights"])
def test_gymnasiums_own_checks_pass(action: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(an_env(action=action), skip_render_check=True)


def test_an_episode_follows_from_its_seed() -> None:
    env = an_env()
    assert played(env, last, 3) == played(env, last, 3) == played(an_env(), last, 3)
    assert played(env, last, 3) != played(env, last, 4)
    assert {pod for pod, _ in played(env, last)} == {f"default/p{at}" for at in range(12)}


def test_rows_of_an_observation_are_nodes_by_name_in_parts_of_the_largest_node() -> None:
    env = an_env()
    observation, info = env.reset(seed=1)
    assert env.nodes == ["a", "b", "c"]
    assert observation["nodes"].tolist() == [[1, 1, 1, 1, 1], [0.25, 0.25, 0.25, 0.25, 1], [0.5, 0.5, 0.5, 0.5, 1]]
    number = int(info["pod"].rpartition("p")[2])
    assert observation["pod"].tolist() == [(1 + number % 4) / 32, (1 + number % 3) / 64]
    assert info["action_mask"].tolist() == [1, 1, 1, 1]


def test_filters_run_once_a_step_and_observations_that_follow_changes_are_those_of_a_fresh_look() -> None:
    asked: list[tuple[str, str]] = []

    class Counted(PlainPlugin):
        name = "Counted"

        def filter(self, pod: Pod, node: NodeView) -> str | None:
            asked.append((pod.name, node.name))
            return None

    def look(outcome: mooring.gym.StepOutcome) -> float:
        fresh.append(DecisionObserver().observe(outcome.nodes, outcome.pod, slice(0, 3))["nodes"])
        return 0.0

    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Counted"}]}}}],
    }
    fresh: list[Any] = []
    env = an_env(plugins=[Counted], config=config, reward=look)
    env.action_space.seed(5)
    observation, info = env.reset(seed=1)
    seen = [observation["nodes"]]
    for _ in range(11):
        observation, *_, info = env.step(env.action_space.sample(info["action_mask"]))
        seen.append(observation["nodes"])
    assert sorted(asked) == sorted({*asked})
    assert {pod for pod, _ in asked} == {f"p{at}" for at in range(12)}
    assert [each.tolist() for each in seen[1:]] == [each.tolist() for each in fresh]
    assert seen[0].tolist() != seen[1].tolist(), "an observation stays as it was shown"


def test_an_action_chooses_the_node_and_the_next_observation_shows_it() -> None:
    env = an_env()
    observation, _ = env.reset(seed=1)
    pod = observation["pod"]
    observation, reward, _, _, info = env.step(1)
    assert (info["node"], reward, info["refused"]) == ("b", 1.0, False)
    assert observation["nodes"][1, [1, 3]].tolist() == (0.25 - pod).tolist()
    assert observation["nodes"][1, 4] == np.float32(19 / 20)


def test_a_node_without_room_is_masked_and_refused() -> None:
    env = mooring.gym.SchedulingEnv([a_node("a", 1), a_node("b", 4), a_pod("large", 2000, 64), a_pod("same", 2000, 64)])
    _, info = env.reset(seed=1)
    assert info["action_mask"].tolist() == [0, 1, 1]
    _, _, _, _, info = env.step(0)
    assert (info["node"], info["refused"]) == ("b", True)


def test_pods_that_fit_nowhere_are_no_steps_and_the_end_is_a_termination() -> None:
    env = mooring.gym.SchedulingEnv([a_node("a", 1), a_pod("large", 2000, 64), a_pod("small", 100, 64)])
    assert played(env, last) == [("default/small", "a")]
    with pytest.raises(RuntimeError, match="call reset"):
        env.step(0)


def test_an_episode_that_is_cut_is_truncated() -> None:
    arrivals = [{"at": f"{at}m", "pod": a_pod(f"later-{at}", 100, 64)} for at in range(10)]
    env = mooring.gym.SchedulingEnv(NODES, arrivals=arrivals, until_s=300)
    env.reset(seed=1)
    ends = [env.step(0)[2:4] for _ in range(6)]
    assert ends == [(False, False)] * 5 + [(False, True)]


def test_arrivals_can_be_drawn_for_each_episode() -> None:
    def draw(chance: np.random.Generator) -> list[Json]:
        return [{"at": "1s", "pod": a_pod(f"drawn-{chance.integers(10**6)}", 100, 64)}]

    env = mooring.gym.SchedulingEnv(NODES, arrivals=draw)
    assert played(env, last, 1) == played(env, last, 1) != played(env, last, 2)


def test_weights_of_one_plugin_alone_choose_as_that_plugin_does() -> None:
    env = an_env(action="weights")
    plugin = "NodeResourcesFit"
    weights = np.array([float(name == plugin) for name in env.score_plugins], np.float32)
    others = [{"name": name} for name in env.score_plugins if name != plugin]
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"score": {"disabled": others}}}],
    }
    alone = an_env(config=config)
    assert played(env, lambda observation: weights) == played(alone, last)
    assert played(env, lambda observation: -weights) != played(alone, last)


def test_a_policy_places_pods_alike_in_training_in_a_simulation_and_in_the_embedded_cluster(tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text(POLICY)
    scope: Json = {}
    exec(POLICY, scope)
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"score": {"enabled": [{"name": "AgentScore"}]}},
                "pluginConfig": [{"name": "AgentScore", "args": {"policy": f"{file}:fill"}}],
            }
        ],
    }

    def choose(observation: Json) -> int:
        preferred = scope["fill"](observation)
        return int(np.argmax(np.where(observation["action_mask"], preferred, -np.inf)))

    trained = played(an_env(), choose)
    order = [name.partition("/")[2] for name, _ in trained]
    pods = sorted(PODS, key=lambda pod: order.index(pod["metadata"]["name"]))
    loaded = load([*NODES, *pods], config)
    report = Simulation(loaded.objects, loaded.config, loaded.registry, loaded.gates).run()
    assert {result.pod.key: result.node for result in report.placed} == dict(trained)
    cluster = VirtualCluster(EmbeddedSettings(config=configuration.from_object(config)))
    for node in NODES:
        cluster.ask("POST", "/api/v1/nodes", node)
    for pod in pods:
        cluster.ask("POST", "/api/v1/namespaces/default/pods", pod)
    listed = cluster.ask("GET", "/api/v1/namespaces/default/pods")["items"]
    assert {f"default/{pod['metadata']['name']}": pod["spec"]["nodeName"] for pod in listed} == dict(trained)
    assert dict(trained) != dict(played(an_env(), last))


def test_several_environments_step_together() -> None:
    envs = gymnasium.make_vec(mooring.gym.ENVIRONMENT, 3, vectorization_mode="sync", cluster=[*NODES, *PODS])
    observations, _ = envs.reset(seed=1)
    assert observations["nodes"].shape == (3, 3, 5)
    observations, rewards, _, _, info = envs.step(np.array([0, 1, 2]))
    assert rewards.tolist() == [1, 1, 1]
    assert list(info["node"]) == ["a", "b", "c"]


def test_rewards_count_nodes_in_use_and_room_that_typical_pods_cannot_use() -> None:
    env = mooring.gym.SchedulingEnv([a_node("a", 2), a_node("b", 2), *PODS[:2]], reward=mooring.gym.used_nodes)
    env.reset(seed=1)
    assert [env.step(0)[1], env.step(0)[1]] == [-1, 0]
    fragmentation = mooring.gym.Fragmentation([a_pod("one", 1500, 64), a_pod("two", 500, 64)], ("cpu",))
    measured: list[float] = []

    def reward(outcome: mooring.gym.StepOutcome) -> float:
        measured.append(fragmentation.measure(outcome.nodes))
        return fragmentation(outcome)

    pods_of_two = [a_pod("x", 1000, 64), a_pod("y", 1000, 64)]
    env = mooring.gym.SchedulingEnv([a_node("a", 2), a_node("b", 2), *pods_of_two], reward=reward)
    env.reset(seed=1)
    # x takes half of `a`. Half of the typical pods, those with 1.5 cpu, cannot use the rest, a quarter of all cpus.
    first = env.step(0)[1]
    # y takes the other half: nothing is free on `a`, so nothing is unusable.
    second = env.step(0)[1]
    assert measured == [0.125, 0.0]
    assert (first, second) == (0.0, 0.125)


@pytest.mark.parametrize(
    ("options", "told"),
    [({"action": "any"}, 'action must be "node" or "weights"'), ({"generate": {"podz": 1}}, "podz")],
    ids=["an unknown action", "an unknown field of a plan"],
)
def test_options_that_cannot_be_used_are_refused(options: Json, told: str) -> None:
    with pytest.raises(mooring.InputError, match=told):
        an_env(**options)
