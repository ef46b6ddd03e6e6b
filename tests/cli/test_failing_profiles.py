"""Questions under a profile in which a plugin fails every attempt: the answer has its words, and no command ends in a
traceback."""

from pathlib import Path
from typing import Any

import pytest
from command import mooring, write

from build import a_node, a_pod

CONFIG = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins: {preFilter: {disabled: [{name: PLUGIN}]}}
"""
TEXTS = {
    "NodeResourcesFit": 'error reading "PreFilterNodeResourcesFit" from cycleState: not found',
    "PodTopologySpread": 'reading "PreFilterPodTopologySpread" from cycleState: not found',
}


@pytest.mark.parametrize("plugin", TEXTS)
@pytest.mark.parametrize("command", ["plan", "explain", "simulate", "capacity"])
def test_the_answer_names_the_plugin_that_fails(tmp_path: Path, command: str, plugin: str) -> None:
    cluster = write(tmp_path / "cluster.json", a_node("n"), *(a_pod(f"p{i}", cpu="3", image="i") for i in range(2)))
    pod = write(tmp_path / "pod.json", a_pod("q", cpu="1", image="i"))
    config, offers = tmp_path / "config.yaml", tmp_path / "offers.yaml"
    config.write_text(CONFIG.replace("PLUGIN", plugin))
    offers.write_text("- {name: more, price: 2, like: n}\n")
    asked: dict[str, list[Any]] = {
        "plan": ["--offer", offers, "--from", cluster],
        "explain": ["p0", "--from", cluster],
        "simulate": [cluster],
        "capacity": [pod, "--from", cluster],
    }
    ran = mooring(command, *asked[command], "--config", config)
    assert ran.code in (0, 1)
    assert f'running "{plugin}" filter plugin: {TEXTS[plugin]}' in ran.out
