"""Files with secrets or data of clusters: readable only for their owner from their creation on, written atomically, and
locked in kubectl's way while they change."""

import errno
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step: readers see either the old content or the new one. Creates missing directories.

    The target of a symbolic link is replaced, not the link. The file keeps its owner, as far as permissions allow. A
    device or a pipe, such as /dev/stdout, is written to.
    """
    if path.exists() and not path.is_file():
        path.write_bytes(content)
        return
    target = path.resolve()
    make_private_folders(target.parent)
    # mkstemp creates the file with mode 0600, so that the secret is not readable for others at any moment.
    handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
            with suppress(FileNotFoundError, PermissionError):
                held = target.stat()
                os.fchown(file.fileno(), held.st_uid, held.st_gid)
        os.replace(scratch, target)
    except BaseException:
        with suppress(FileNotFoundError):
            os.unlink(scratch)
        raise


def open_private(path: Path | str, flags: int = 0) -> int:
    """The descriptor of a file for reading and writing that only its owner may read, also if it was there before.

    `flags` are more flags of `os.open`, such as O_EXCL or O_APPEND. Raises OSError.
    """
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | flags, _FILE_MODE)
    try:
        mode = os.fstat(handle).st_mode
        if stat.S_ISREG(mode) and stat.S_IMODE(mode) != _FILE_MODE:
            with suppress(PermissionError):  # the file of another owner, who decides
                os.fchmod(handle, _FILE_MODE)
    except BaseException:
        os.close(handle)
        raise
    return handle


def make_private_folders(path: Path) -> None:
    """Make a folder and those above it that are missing, so that only the owner may enter them. Raises OSError.

    A folder that is there already stays as it is: it may be shared, such as /tmp.
    """
    for folder in reversed([each for each in (path, *path.parents) if not each.exists()]):
        folder.mkdir(mode=_FOLDER_MODE, exist_ok=True)
    if not path.is_dir():
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(path))


def make_private(path: Path) -> None:
    """Take all rights of others from a file or folder that is there. Nothing happens to those of another owner."""
    with suppress(PermissionError, FileNotFoundError):
        path.chmod(_FOLDER_MODE if path.is_dir() else _FILE_MODE)


# ---- locks: the program that has created FILE.lock may change FILE


PATIENCE_S = 10.0
"""How long to wait for a lock: far longer than a change takes. After that, a killed program probably left it behind."""

_RETRY_S = 0.02
"""How often to try again: a change takes a few milliseconds."""


class FileLocked(Exception):
    """Another program has the lock."""

    def __init__(self, lock: Path) -> None:
        super().__init__(f"{lock} exists: another program is changing the file. If no program is, remove {lock}")


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Lock a file for the duration of the block. Raises FileLocked, OSError.

    Both a symbolic link and its target are locked, because kubectl locks the name that it is given.
    """
    # All programs lock in the same order, so that two of them cannot wait for each other.
    names = sorted({path.absolute(), path.resolve()})
    with ExitStack() as held:
        for name in names:
            make_private_folders(name.parent)
            held.enter_context(_lock(name.with_name(f"{name.name}.lock"), patience_s))
        yield


@contextmanager
def _lock(lock: Path, patience_s: float) -> Iterator[None]:
    """Hold a lock file while the caller works. Raises FileLocked if another process holds it for longer than `patience_s`
    seconds."""
    ends = time.monotonic() + patience_s
    while True:
        try:
            os.close(os.open(lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0))
            break
        except FileExistsError:
            if time.monotonic() >= ends:
                raise FileLocked(lock) from None
            time.sleep(_RETRY_S)
    try:
        yield
    finally:
        with suppress(FileNotFoundError):
            lock.unlink()
