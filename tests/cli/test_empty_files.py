"""A file without any object is a mistake, and an empty List is an empty cluster."""

import gzip
from pathlib import Path

import pytest
from click.testing import CliRunner

from mooring.cli.main import main
from mooring.inputs.documents import is_empty

EXAMPLES = Path(__file__).parents[2] / "examples"
CROWDED, WORKER = str(EXAMPLES / "crowded.yaml"), str(EXAMPLES / "worker.yaml")
EMPTY = ["", "\n", "# only a comment\n", "---\n", "# a\n---\n# b\n...\n---", "\ufeff", "  # x\r\n--- # y\r\n"]


def ran(*arguments: str, given: str = "") -> tuple[int, str]:
    result = CliRunner().invoke(main, [*arguments], catch_exceptions=False, input=given)
    return result.exit_code, result.output


@pytest.mark.parametrize("text", EMPTY)
def test_an_empty_file_is_refused(tmp_path: Path, text: str) -> None:
    file = tmp_path / "empty.yaml"
    file.write_text(text)
    told = 2, f"{file}: the file is empty, or has only comments\n"
    assert ran("simulate", str(file)) == told
    assert ran("explain", "--from", str(file), "web") == told


@pytest.mark.parametrize(
    "arguments",
    [
        ("capacity", "--from", CROWDED, "FILE"),
        ("capacity", "--from", "FILE", WORKER),
        ("what-if", "--from", CROWDED, "--apply", "FILE"),
        ("plan", "--from", CROWDED, "--offer", "FILE"),
        ("simulate", CROWDED, "--arrivals", "FILE"),
        ("simulate", "--generate", "FILE"),
        ("compare", "--from", "FILE", "default", "default"),
    ],
)
def test_every_command_refuses_an_empty_file(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "empty.yaml"
    file.touch()
    code, told = ran(*(each.replace("FILE", str(file)) for each in arguments))
    assert code == 2 and f"{file}: the file is empty, or has only comments\n" in told


def test_standard_input_and_compressed_files_are_refused_too(tmp_path: Path) -> None:
    assert ran("simulate", "-") == (2, "standard input: the input is empty, or has only comments\n")
    file = tmp_path / "empty.yaml.gz"
    file.write_bytes(gzip.compress(b"# nothing\n"))
    assert ran("simulate", str(file)) == (2, f"{file}: the file is empty, or has only comments\n")


def test_an_empty_file_of_a_folder_is_refused_only_where_all_are_empty(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("# later\n")
    (tmp_path / "b.yaml").touch()
    assert ran("simulate", str(tmp_path)) == (
        2,
        f"{tmp_path}: every file of the folder is empty, or has only comments\n",
    )
    (tmp_path / "c.yaml").write_text(Path(WORKER).read_text())
    assert ran("simulate", str(tmp_path))[1].startswith("0 of 1 pending pod placed")


def test_an_empty_list_is_an_empty_cluster(tmp_path: Path) -> None:
    file = tmp_path / "list.json"
    file.write_text('{"apiVersion": "v1", "kind": "List", "items": []}')
    assert ran("simulate", str(file)) == (0, "no pending pods, 0 nodes\n")


def test_a_large_file_of_comments_is_read_in_one_pass() -> None:
    assert is_empty(b"# # # --- ... # #\n" * 50_000)
    assert not is_empty(b"# # # --- ... # #\n" * 50_000 + b"x")
    assert not is_empty(b"----\n") and not is_empty(b"--- {}\n")
