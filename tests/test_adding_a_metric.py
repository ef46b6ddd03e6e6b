"""A metric of a plugin is declared in the plugin's own file."""

from pathlib import Path

import pytest

from added_tree import ROOT, AddedTree

pytestmark = pytest.mark.slow

PLUGIN = "src/mooring/plugins/nodes/quiet_nodes.py"
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from build import a_cluster, a_node, a_pod
from mooring.framework import config
from mooring.state.scheduler_assembly import build_runners
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.observer import Observer

header = {{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}}
profile = {{"plugins": {{"multiPoint": {{"enabled": [{{"name": "QuietNodes"}}]}}}}}}
observer = Observer()
runners = build_runners(config.from_object({{**header, "profiles": [profile]}}), observer=observer)
cluster = a_cluster(a_node("n"), a_node("m"), a_pod("a", nodeName="n"), a_pod("b", nodeName="n"))
decide(runners["default-scheduler"], a_pod("c"), cluster, DecideOptions())
print(observer.registry.text())
"""


def test_a_metric_is_declared_in_the_file_of_its_plugin(tmp_path: Path) -> None:
    tree = AddedTree(tmp_path)
    tree.apply(PLUGIN)
    tree.apply(PLUGIN, 1)
    tree.check(PLUGIN)
    shown = tree.python("-c", PROGRAM)
    assert "# HELP scheduler_quiet_nodes_rejected_total [ALPHA] Nodes that QuietNodes rejected.\n" in shown
    assert "scheduler_quiet_nodes_rejected_total 1\n" in shown
