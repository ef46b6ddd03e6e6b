"""Environments for agents that learn to place pods, with the interface of Gymnasium (`pip install 'mooring[gym]'`).

    import mooring.gym
    env = mooring.gym.SchedulingEnv("cluster.yaml", generate="load.yaml", reward=mooring.gym.used_nodes)
    observation, info = env.reset(seed=1)
    observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))

`gymnasium.make("mooring/Scheduling-v0", cluster=...)` makes the same environment, and `gymnasium.make_vec` several of them.
docs/laboratory.md shows how an agent is trained, and how `mooring run` uses it.
"""

import gymnasium

from mooring.gym.environment import SchedulingEnv
from mooring.gym.rewards import Fragmentation, StepOutcome, placed, used_nodes

__all__ = ["ENVIRONMENT", "Fragmentation", "SchedulingEnv", "StepOutcome", "placed", "used_nodes"]

ENVIRONMENT = "mooring/Scheduling-v0"
"""The name for `gymnasium.make` and `gymnasium.make_vec`."""

if ENVIRONMENT not in gymnasium.registry:
    gymnasium.register(ENVIRONMENT, "mooring.gym:SchedulingEnv")
