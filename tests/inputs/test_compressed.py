"""Compressed input: files, standard input and folders; damaged files; files that expand beyond the limit."""

import gzip
import io
import json
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node
from mooring.inputs.documents import STDIN
from mooring.inputs.manifests import Manifests, read
from mooring.kit.bounded_reading import BadGzip, gunzipped

NODE = json.dumps({"apiVersion": "v1", "kind": "Node", **msgspec.to_builtins(a_node("n"))}).encode()
TOO_LARGE = "all input together has more than {} bytes; give fewer files"


def names(manifests: Manifests) -> list[str]:
    assert not manifests.problems, [str(problem) for problem in manifests.problems]
    return [manifest.object.name for manifest in manifests.objects]


def texts(manifests: Manifests) -> list[str]:
    return [str(problem) for problem in manifests.problems]


@pytest.mark.parametrize("name", ["node.json.gz", "node.yaml.gz", "NODE.YML.GZ", "node.json", "node"])
def test_a_compressed_file_is_read_whatever_its_name(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(NODE))
    assert names(read([str(tmp_path / name)])) == ["n"]


def test_compressed_standard_input_is_read() -> None:
    assert names(read([STDIN], io.BytesIO(gzip.compress(NODE)))) == ["n"]


def test_a_folder_has_compressed_manifests_among_others(tmp_path: Path) -> None:
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(NODE))
    (tmp_path / "b.yaml").write_bytes(NODE.replace(b'"n"', b'"other"'))
    (tmp_path / "c.gz").write_bytes(gzip.compress(b"not a manifest"))
    assert names(read([str(tmp_path)])) == ["n", "other"]


def test_several_members_are_one_text_and_padding_is_ignored() -> None:
    assert gunzipped(gzip.compress(b"one ") + gzip.compress(b"two") + bytes(8), 100) == b"one two"


def test_lines_of_problems_are_those_of_the_text(tmp_path: Path) -> None:
    file = tmp_path / "node.yaml.gz"
    file.write_bytes(gzip.compress(b"apiVersion: v1\nkind: Node\nmetadata:\n  name: n\nspec:\n  taintz: []\n"))
    assert texts(read([str(file)])) == [f"{file}:6: Node n: spec.taintz: unknown field; did you mean taints?"]


def test_a_file_that_expands_beyond_the_limit_is_refused(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.json.gz"
    bomb.write_bytes(gzip.compress(bytes(50_000_000)))
    assert bomb.stat().st_size < 100_000
    assert texts(read([str(bomb)], max_bytes=1_000_000)) == [f"{bomb}: {TOO_LARGE.format(1_000_000)}"]


def test_the_limit_counts_the_members_together() -> None:
    raw = gzip.compress(bytes(60)) * 3
    assert len(gunzipped(raw, 100)) == 101
    assert len(gunzipped(raw, 180)) == 180


def test_damaged_files_are_problems(tmp_path: Path) -> None:
    whole = gzip.compress(NODE)
    (tmp_path / "cut.gz").write_bytes(whole[:-12])
    (tmp_path / "damaged.gz").write_bytes(whole[:15] + b"\xff\xff\xff" + whole[18:])
    assert texts(read([str(tmp_path / "cut.gz"), str(tmp_path / "damaged.gz")])) == [
        f"{tmp_path}/cut.gz: the gzip file is cut off: copy it again",
        f"{tmp_path}/damaged.gz: the gzip file is damaged: compress it again",
    ]


@given(st.binary(max_size=200), st.integers(0, 250), st.integers(0, 60), st.integers(0, 255))
def test_any_change_gives_the_content_or_a_problem(content: bytes, limit: int, place: int, value: int) -> None:
    raw = bytearray(gzip.compress(content))
    raw[place % len(raw)] = value
    with suppress(BadGzip):
        assert len(gunzipped(bytes(raw), limit)) <= limit + 1
