"""Small files that stand for gigabytes: each command refuses them in one line, and its memory stays small.

The memory is that of a process of its own, as the kernel counts it: its largest resident size.
"""

import gzip
import os
import struct
import zlib
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from forked_commands import run_mooring
from mooring.kit.bounded_reading import GRACE_BYTES
from mooring.state.recording.segment_file import FORMAT, MAGIC

MOST_BYTES = 200 << 20
"""Python with the modules of all commands takes some 80 MiB."""
HEADER = b'{"run":"r","number":1,"begins":"state","version":"1"}\n'
GIB = 1 << 30


def refused(*command: str) -> list[str]:
    """The lines that a command prints when it refuses its input. Checks its exit status and its memory."""
    done = run_mooring(*command, environment={**os.environ, "COLUMNS": "500"})
    told = done.stdout + done.stderr
    assert done.returncode > 0, told
    assert done.peak_bytes < MOST_BYTES, f"{done.peak_bytes >> 20} MiB: {told}"
    assert "Traceback" not in told
    return told.splitlines()


# ---- recordings


def zeros(frame_size: bool, total: int = GIB) -> bytes:
    """A frame of zeros, with its size in its header or without."""
    engine = zstandard.ZstdCompressor(level=1, write_content_size=frame_size)
    stream = engine.compressobj(size=total if frame_size else -1)
    piece = bytes(16 << 20)
    made = [stream.compress(piece) for _ in range(total // len(piece))]
    return b"".join((*made, stream.flush()))


def a_block_of(content: bytes, times: int) -> bytes:
    """A frame with one block of the right length and checksum, whose content repeats."""
    checksum = zlib.crc32((1).to_bytes(8, "little"))
    for _ in range(times):
        checksum = zlib.crc32(content, checksum)
    stream = zstandard.ZstdCompressor(level=1).compressobj()
    made = [stream.compress(struct.pack("<II", len(content) * times, checksum))]
    made += [stream.compress(content) for _ in range(times)]
    return b"".join((*made, stream.flush()))


def a_giant_window() -> bytes:
    """A frame whose header claims a window of 2 GiB."""
    parameters = zstandard.ZstdCompressionParameters.from_level(1, window_log=31)
    stream = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    return stream.compress(bytes(1000)) + stream.flush()


FRAMES: dict[str, Callable[[], bytes]] = {
    "zeros without a size": lambda: zeros(frame_size=False),
    "zeros with a size": lambda: zeros(frame_size=True),
    "a block of blanks": lambda: a_block_of(b" " * (1 << 20), 250),
    "a block of commas in one step": lambda: a_block_of(b"[1," + b"1," * (1 << 19), 60),
    "a block of empty nodes": lambda: a_block_of(b'{"nodes":[' + b"{}," * (1 << 18), 30),
    "a giant window": a_giant_window,
}


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
def test_a_recording_that_expands_is_refused(tmp_path: Path, frame: Callable[[], bytes]) -> None:
    run = tmp_path / "20261116T080000Z-4f3a"
    run.mkdir()
    (run / "000001.rec").write_bytes(MAGIC + b"%d\n" % FORMAT + HEADER + frame())
    lines = refused("replay", str(tmp_path))
    assert len(lines) <= 3, lines
    assert any("000001.rec" in line for line in lines), lines


# ---- manifests


def a_gzip_bomb() -> bytes:
    engine = zlib.compressobj(6, zlib.DEFLATED, 31)
    piece = b" " * (16 << 20)
    made = [engine.compress(piece) for _ in range(GIB // 4 // len(piece))]
    return b"".join((*made, engine.flush()))


def aliases_of(seed: str, times: int, levels: int) -> bytes:
    lines = [f"l0: &l0 {seed}"]
    lines += [f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * times)}]" for i in range(1, levels)]
    return "\n".join(lines).encode()


MANIFESTS: dict[str, tuple[str, Callable[[], bytes], str]] = {
    "gzip": ("bomb.json.gz", a_gzip_bomb, "compressed bytes expand more than 250-fold"),
    "gzip of many members": ("bomb.json.gz", lambda: gzip.compress(bytes(1 << 20)) * 4096, "expand more than 250-fold"),
    "gzip of tiny values": (
        "bomb.json.gz",
        lambda: gzip.compress(b'{"kind":"List","apiVersion":"v1","items":[' + b"0," * 15_000_000 + b"0]}"),
        "it has more than one value for each 8 bytes",
    ),
    "billion laughs": ("bomb.yaml", lambda: aliases_of("lol", 9, 20), "the aliases stand for more than"),
    "many aliases of a long scalar": (
        "bomb.yaml",
        lambda: aliases_of("x" * 1_000_000, 50_000, 2),
        "the aliases stand for more than",
    ),
    "deep YAML": ("bomb.yaml", lambda: b"[" * 1_000_000, "the nesting is too deep"),
    "deep JSON": ("bomb.json", lambda: b'{"a":' * 1_000_000, "bomb.json"),
}


@pytest.mark.parametrize(("name", "content", "text"), MANIFESTS.values(), ids=MANIFESTS)
def test_a_manifest_that_expands_is_refused(tmp_path: Path, name: str, content: Callable[[], bytes], text: str) -> None:
    (tmp_path / name).write_bytes(content())
    (line,) = refused("simulate", str(tmp_path / name))
    assert text in line and name in line


def a_sparse_file(folder: Path) -> Path:
    """A file of a tebibyte that takes no room."""
    sparse = folder / "sparse.json"
    sparse.touch()
    os.truncate(sparse, 1 << 40)
    return sparse


def test_a_sparse_manifest_is_refused_without_reading_it(tmp_path: Path) -> None:
    sparse = a_sparse_file(tmp_path)
    (line,) = refused("simulate", str(sparse))
    assert line.endswith(f"{sparse}: all input together has more than {GIB} bytes; give fewer files")


# ---- files of settings


CLUSTER = str(Path(__file__).parents[2] / "examples" / "cluster.yaml")
SETTINGS = {
    "a configuration": ("simulate", "--config", "/dev/zero", CLUSTER),
    "prices": ("compare", "--from", CLUSTER, "--prices", "/dev/zero"),
    "a node template": ("up", "--nodes", "1", "--node-template", "/dev/zero"),
}


@pytest.mark.parametrize("command", SETTINGS.values(), ids=SETTINGS)
def test_a_file_of_settings_without_end_is_refused(command: tuple[str, ...]) -> None:
    lines = refused(*command)
    assert any("/dev/zero" in line and "more than" in line for line in lines), lines


def test_a_sparse_kubeconfig_is_refused(tmp_path: Path) -> None:
    sparse = a_sparse_file(tmp_path)
    (line,) = refused("dump", "--kubeconfig", str(sparse), "-o", str(tmp_path / "dump.json"))
    assert line.endswith(f"{sparse}: cannot be read: the file has more than 16 MiB, the limit for such a file")


def test_the_grace_is_a_part_of_the_memory_that_a_command_may_take() -> None:
    assert GRACE_BYTES < MOST_BYTES / 4
