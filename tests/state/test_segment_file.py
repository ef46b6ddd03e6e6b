"""One file of a recording: what is written is read again, and what is damaged ends it, whatever the damage."""

import struct
import zlib
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.state.recording.segment_file import RecordingError, SegmentHeader, SegmentReader, SegmentWriter

HEADER = SegmentHeader(run="r", number=1, started_ns=5, settings={"kind": "X"})
BLOCKS = st.lists(st.binary(min_size=1, max_size=300), max_size=8)


def written(path: Path, blocks: list[bytes], closes: bool = True) -> Path:
    path.unlink(missing_ok=True)
    writer = SegmentWriter(path, HEADER)
    for block in blocks:
        writer.write(block)
    if closes:
        writer.close()
    return path


@given(blocks=BLOCKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_was_written_is_read(tmp_path: Path, blocks: list[bytes]) -> None:
    reader = SegmentReader(written(tmp_path / "1.rec", blocks))
    assert list(reader.blocks()) == blocks
    assert reader.damage is None
    assert (reader.header.run, reader.header.started_ns, reader.header.settings) == ("r", 5, {"kind": "X"})


@given(blocks=BLOCKS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_file_that_is_still_written_to_is_read_as_far_as_it_goes(tmp_path: Path, blocks: list[bytes]) -> None:
    reader = SegmentReader(written(tmp_path / "1.rec", blocks, closes=False))
    assert list(reader.blocks()) == blocks
    assert reader.damage is None


@given(blocks=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8), cut=st.integers(1, 400))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_torn_tail_is_cut_and_all_before_it_is_good(tmp_path: Path, blocks: list[bytes], cut: int) -> None:
    path = written(tmp_path / "1.rec", blocks, closes=False)
    data = path.read_bytes()
    start = data.index(b"\n", data.index(b"\n") + 1) + 1
    path.write_bytes(data[: max(start, len(data) - cut)])
    found = list(SegmentReader(path).blocks())
    assert found == blocks[: len(found)]


@given(
    blocks=st.lists(st.binary(min_size=1, max_size=300), min_size=1, max_size=8),
    place=st.integers(0, 10_000),
    bit=st.integers(0, 7),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_bit_that_flipped_gives_no_block_that_was_not_written(
    tmp_path: Path, blocks: list[bytes], place: int, bit: int
) -> None:
    path = written(tmp_path / "1.rec", blocks)
    data = bytearray(path.read_bytes())
    start = data.index(b"\n", data.index(b"\n") + 1) + 1
    data[start + place % (len(data) - start)] ^= 1 << bit
    path.write_bytes(data)
    reader = SegmentReader(path)
    found = list(reader.blocks())
    assert found == blocks[: len(found)]
    # A bit may also make the stream wait for more: then the file looks like one that is still written to.
    assert found == blocks or reader.damage is not None or not reader.is_ended


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not a recording"),
        (b"hello\n", "not a recording"),
        (b"mooring-recording x\n{}\n", "format of the recording cannot be read"),
        (b"mooring-recording 999\n{}\n", "format 999; this version reads 1 to"),
        (b"mooring-recording 0\n{}\n", "format 0; this version reads"),
        (b"mooring-recording 2\n{", "header of the recording cannot be read"),
        (b'mooring-recording 1\n{"run": 1}\n', "header of the recording cannot be read"),
    ],
)
def test_what_is_no_recording_is_refused(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "1.rec"
    path.write_bytes(content)
    with pytest.raises(RecordingError, match=said) as refused:
        SegmentReader(path)
    assert str(path) in str(refused.value)


def test_a_block_that_claims_to_be_huge_is_damage(tmp_path: Path) -> None:
    path = written(tmp_path / "1.rec", [])
    frame = struct.pack("<II", 0xFFFFFFFF, zlib.crc32(b""))
    SegmentWriter(tmp_path / "2.rec", HEADER)
    with (tmp_path / "2.rec").open("ab") as file:
        file.write(zstandard.ZstdCompressor().compress(frame))
    reader = SegmentReader(tmp_path / "2.rec")
    assert list(reader.blocks()) == []
    assert reader.damage == "a block claims to have 4,294,967,295 bytes"
    assert list(SegmentReader(path).blocks()) == []
