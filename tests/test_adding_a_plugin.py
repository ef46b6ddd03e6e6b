"""A plugin is one new file, and one more line where it is on by default."""

from pathlib import Path

import pytest

from added_tree import AddedTree

pytestmark = pytest.mark.slow

PLUGIN = "src/mooring/plugins/nodes/quiet_nodes.py"
DEFAULTS = "src/mooring/framework/config/defaults.py"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint:
      enabled:
      - name: QuietNodes
"""
NODE = "{apiVersion: v1, kind: Node, metadata: {name: n}, status: {allocatable: {cpu: 8, memory: 8Gi, pods: 110}}}"
POD = "{apiVersion: v1, kind: Pod, metadata: {name: p%d}, spec: {containers: [{name: c, image: i}]}}"
REASON = "node(s) had 2 pods already"


def a_tree(folder: Path) -> AddedTree:
    (folder / "cluster.yaml").write_text("\n---\n".join([NODE, *(POD % number for number in range(3))]))
    (folder / "quiet.yaml").write_text(CONFIG)
    tree = AddedTree(folder)
    tree.apply(PLUGIN)
    return tree


def test_a_plugin_is_one_file_and_a_configuration_enables_it(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.check(PLUGIN)
    assert REASON in tree.mooring("simulate", "cluster.yaml", "--config", "quiet.yaml")
    assert REASON not in tree.mooring("simulate", "cluster.yaml"), "nothing enables it yet"


def test_a_plugin_that_is_on_by_default_is_one_file_and_one_line(tmp_path: Path) -> None:
    tree = a_tree(tmp_path)
    tree.apply(DEFAULTS)
    assert REASON in tree.mooring("simulate", "cluster.yaml")
