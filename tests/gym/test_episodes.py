"""The environment for agents: its name in Gymnasium, its spaces, loads that a plan draws, and rewards of steps."""

import importlib
from typing import Any

import gymnasium
import numpy as np
import pytest

from mooring import gym
from mooring.inputs.input_errors import InputError

Json = dict[str, Any]


def a_node(name: str, cpu: int = 4) -> Json:
    allocatable = {"cpu": str(cpu), "memory": f"{4 * cpu}Gi", "pods": "20"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"allocatable": allocatable}}


def a_pod(name: str, cpu: str = "1", **fields: Any) -> Json:
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], **fields.pop("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **fields}, "spec": spec}


def test_gymnasium_makes_the_environment_by_its_name_however_often_it_is_imported() -> None:
    importlib.reload(gym)
    env = gymnasium.make("mooring/Scheduling-v0", cluster=[a_node("a"), a_pod("p")])
    assert isinstance(env.unwrapped, gym.SchedulingEnv)


@pytest.mark.parametrize("action", ["node", "weights"])
def test_the_spaces_hold_what_may_be_seen_and_done(action: str) -> None:
    env = gym.SchedulingEnv([a_node("a"), a_node("b")], action=action, resources=("cpu", "memory", "pods"))
    nodes, pod, mask = (env.observation_space[name] for name in ("nodes", "pod", "action_mask"))  # type: ignore[index]
    # Of each resource a node shows its amount and what is free of it, and beside them how many pods it may still have.
    assert (nodes.shape, nodes.low.min(), nodes.high.max()) == ((2, 7), -1, 1)
    assert (pod.shape, pod.low.min(), pod.high.max()) == ((3,), 0, 2)
    assert (mask.shape, mask.low.min(), mask.high.max()) == ((3,), 0, 1)
    if action == "node":
        assert env.action_space == gymnasium.spaces.Discrete(3)
    else:
        assert env.action_space == gymnasium.spaces.Box(-1, 1, (len(env.score_plugins),), np.float32)


def test_an_episode_without_a_pod_shows_no_node_and_forbids_nothing() -> None:
    observation, info = gym.SchedulingEnv([a_node("a"), a_node("b")]).reset(seed=1)
    assert not observation["nodes"].any() and not observation["pod"].any()
    assert (info["pod"], info["action_mask"].tolist(), info["refused"]) == ("", [1, 1, 1], False)


def steps_of(env: gym.SchedulingEnv, seed: int) -> list[tuple[str, list[float]]]:
    """The pods of an episode in which scores decide, with what they ask for."""
    observation, info = env.reset(seed=seed)
    found = []
    while info["pod"]:
        found.append((info["pod"], observation["pod"].tolist()))
        observation, *_, info = env.step(len(info["action_mask"]) - 1)
    return found


def test_a_plan_draws_another_load_for_each_seed_and_brings_its_nodes() -> None:
    plan = {
        "pods": 12,
        "over": "1h",
        "services": 0,
        "gpu": 0,
        "zonal": 0,
        "nodes": [{"name": "big", "count": 2, "cpu": 64, "memory": "256Gi"}],
    }
    env = gym.SchedulingEnv([a_node("a")], generate=plan)
    assert env.nodes == ["a", "big-0", "big-1"]
    one, again, other = (steps_of(env, seed) for seed in (1, 1, 2))
    assert len(one) == 12 and one == again
    assert sorted(asked for _, asked in one) != sorted(asked for _, asked in other)


def test_a_reward_gets_the_pod_its_node_and_the_time_of_the_episode() -> None:
    seen: list[gym.StepOutcome] = []

    def keep(outcome: gym.StepOutcome) -> float:
        seen.append(outcome)
        return gym.placed(outcome)

    arrivals = [{"at": "0s", "pod": a_pod("low", "3")}, {"at": "10m", "pod": a_pod("next")}]
    env = gym.SchedulingEnv([a_node("a"), a_node("b", 1)], arrivals=arrivals, reward=keep)
    env.reset(seed=1)
    assert [env.step(0)[1], env.step(0)[1]] == [1.0, 1.0]
    assert [(each.pod.name, each.node, each.preempted) for each in seen] == [("low-0", "a", 0), ("next-0", "a", 0)]
    assert 600 <= seen[1].passed_s - seen[0].passed_s < 601


def test_rewards_of_an_outcome() -> None:
    seen: list[gym.StepOutcome] = []

    def keep(outcome: gym.StepOutcome) -> float:
        seen.append(outcome)
        return 0.0

    env = gym.SchedulingEnv([a_node("a"), a_pod("p"), a_pod("q")], reward=keep)
    env.reset(seed=1)
    env.step(0)
    (first,) = seen
    assert (gym.placed(first), gym.used_nodes(first)) == (1.0, -1.0)
    lost = gym.StepOutcome(first.pod, None, first.nodes, 0.0, 2)
    assert (gym.placed(lost), gym.used_nodes(lost)) == (-2.0, 0.0)


def test_fragmentation_is_paid_by_its_growth_and_needs_a_typical_pod() -> None:
    with pytest.raises(InputError, match="^typical: there is no pod to measure fragmentation with$"):
        gym.Fragmentation([a_node("a")])
    fragmentation = gym.Fragmentation([a_pod("typical", "3")])
    env = gym.SchedulingEnv([a_node("a"), a_node("b"), *(a_pod(f"p{i}", "2") for i in range(4))], reward=fragmentation)
    # After a pod with 2 of 4 cpus, the other 2 of 8 in all are of no use to a pod with 3; the next pod takes them.
    for _ in range(2):
        env.reset(seed=1)
        assert [env.step(0)[1] for _ in range(2)] == [0.0, 0.25], "the first step of an episode only measures"
        assert [env.step(1)[1] for _ in range(2)] == [-0.25, 0.25]
