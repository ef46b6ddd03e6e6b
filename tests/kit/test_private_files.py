"""Files that only their owner may read, whatever the umask, and from the moment of their creation."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.kit.private_files import make_private_folders, open_private, write_private


@pytest.fixture(autouse=True)
def no_umask() -> Iterator[None]:
    mask = os.umask(0)
    yield
    os.umask(mask)


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.stat().st_mode):o}"


def test_a_new_file_is_private_before_anything_is_in_it(tmp_path: Path) -> None:
    os.close(open_private(tmp_path / "new", os.O_EXCL))
    assert mode(tmp_path / "new") == "600"


def test_a_file_that_all_could_read_is_private_once_it_is_opened(tmp_path: Path) -> None:
    (tmp_path / "old").write_text("content")
    with os.fdopen(open_private(tmp_path / "old", os.O_APPEND), "a+b", buffering=0) as file:
        file.write(b" and more")
    assert (mode(tmp_path / "old"), (tmp_path / "old").read_text()) == ("600", "content and more")


def test_all_folders_that_are_made_are_private_and_others_stay(tmp_path: Path) -> None:
    (tmp_path / "shared").mkdir(mode=0o755)
    make_private_folders(tmp_path / "shared" / "a" / "b")
    make_private_folders(tmp_path / "shared" / "a" / "b")
    assert [mode(tmp_path / path) for path in ("shared", "shared/a", "shared/a/b")] == ["755", "700", "700"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        make_private_folders(tmp_path / "file")


def test_a_replaced_file_is_private(tmp_path: Path) -> None:
    target = tmp_path / ("long" * 60)
    target.write_text("old")
    write_private(target, b"new")
    assert (mode(target), target.read_text(), [*tmp_path.iterdir()]) == ("600", "new", [target])


def test_a_pipe_is_written_to_and_stays(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_private(pipe, b"content")
    assert os.read(reader, 100) == b"content"
    os.close(reader)
    assert pipe.is_fifo()
