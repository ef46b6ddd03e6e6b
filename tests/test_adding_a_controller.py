"""A controller of the embedded cluster is one new file."""

from pathlib import Path

import pytest

from added_tree import ROOT, AddedTree

pytestmark = pytest.mark.slow

CONTROLLER = "src/mooring/controllers/lifecycle/short_lived.py"
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from virtual_cluster import VirtualCluster

cluster = VirtualCluster()
path = "/api/v1/namespaces/default/configmaps"
for name, labels in [("brief", {{"example.com/short-lived": ""}}), ("kept", {{}})]:
    metadata = {{"name": name, "labels": labels}}
    cluster.ask("POST", path, {{"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}})
for seconds in (50, 20):
    cluster.wait(seconds)
    names = [item["metadata"]["name"] for item in cluster.ask("GET", path)["items"]]
    print([name for name in names if name in ("brief", "kept")])
"""


def test_a_controller_is_one_file(tmp_path: Path) -> None:
    tree = AddedTree(tmp_path)
    assert tree.python("-c", PROGRAM) == "['brief', 'kept']\n['brief', 'kept']\n"
    tree.apply(CONTROLLER)
    tree.check(CONTROLLER)
    assert tree.python("-c", PROGRAM) == "['brief', 'kept']\n['kept']\n"
