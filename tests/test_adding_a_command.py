"""A command is one new file."""

from pathlib import Path

import pytest

from added_tree import AddedTree

pytestmark = pytest.mark.slow

COMMAND = "src/mooring/cli/commands/count_pods.py"


def test_a_command_is_one_file(tmp_path: Path) -> None:
    tree = AddedTree(tmp_path)
    assert "count-pods" not in tree.mooring("--help")
    tree.apply(COMMAND)
    tree.check(COMMAND)
    assert "count-pods  Count the pods of a manifest." in tree.mooring("--help")
    (tmp_path / "two.yaml").write_text("kind: Pod\n---\nkind: Node\n---\nkind: Pod\n")
    assert tree.mooring("count-pods", "two.yaml") == "2 pods\n"
