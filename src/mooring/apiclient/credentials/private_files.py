"""Files with secrets: written atomically, readable only for their owner, and locked in kubectl's way while they change."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Replace a file in one step: readers see either the old content or the new one. Creates missing directories.

    The target of a symbolic link is replaced, not the link. The file keeps its owner, as far as permissions allow.
    """
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp creates the file with mode 0600, so that the secret is not readable for others at any moment.
    handle, scratch = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
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
            name.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            held.enter_context(_lock(name.with_name(f"{name.name}.lock"), patience_s))
        yield


@contextmanager
def _lock(lock: Path, patience_s: float) -> Iterator[None]:
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
