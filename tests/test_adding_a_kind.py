"""The API kind that CONTRIBUTING.md shows is one file; test_adding.py adds a larger one."""

from pathlib import Path

import pytest

from added_tree import ROOT, AddedTree

pytestmark = pytest.mark.slow

KIND = "src/mooring/api/kinds/queues.py"
PROGRAM = f"""
import sys
sys.path.insert(0, {str(ROOT / "tests")!r})
from virtual_cluster import VirtualCluster

queue = {{"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {{"name": "fast"}}, "spec": {{}}}}
made = VirtualCluster().ask("POST", "/apis/example.com/v1/namespaces/default/queues", queue)
print(made["metadata"]["name"], made["spec"])
"""


def test_a_kind_is_one_file(tmp_path: Path) -> None:
    tree = AddedTree(tmp_path)
    tree.apply(KIND)
    tree.check(KIND)
    assert tree.python("-c", PROGRAM) == "fast {'weight': 1}\n"
