"""A small agent: it prefers the node with the highest weighted sum of six features of the node after the pod came.

`examples/agents/train.ipynb` trains the weights and writes them to `agent.json`. Run the agent:

    mooring simulate examples/cluster.yaml --config examples/agents/config.yaml
    mooring run --config examples/agents/config.yaml
"""

import json
from pathlib import Path
from typing import Any

import numpy as np

WEIGHTS = Path(__file__).parent / "agent.json"


def features(observation: dict[str, Any]) -> Any:
    """A row for each node: what would be free of cpu and memory, both squared, how far they are apart, and whether the node
    has no pods yet."""
    nodes, pod = observation["nodes"], observation["pod"]
    cpu, memory = nodes[:, 1] - pod[0], nodes[:, 3] - pod[1]
    return np.stack([cpu, memory, cpu * cpu, memory * memory, np.abs(cpu - memory), nodes[:, 4] == 1], axis=1)


def preferences(observation: dict[str, Any], weights: Any) -> Any:
    """A preference for each node, and none for letting the scores decide."""
    return np.append(features(observation) @ weights, -np.inf)


def act(observation: dict[str, Any]) -> Any:
    """The policy that the plugin AgentScore asks."""
    return preferences(observation, TRAINED)


TRAINED = np.array(json.loads(WEIGHTS.read_text())) if WEIGHTS.exists() else np.zeros(6)
