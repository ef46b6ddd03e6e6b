"""Files that hold secrets: written whole or not at all, and for their owner's eyes only."""

import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path


def write_private(path: Path, content: bytes) -> None:
    """Put content where readers find either the old file or the whole new one. Missing directories are made.

    A symbolic link stays one: what it points to is replaced. A file of another user stays that user's, where we may.
    """
    target = path.resolve()
    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp gives mode 0600, so the secret is never readable to others, not even for a moment.
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


# ---- Locks of files that several programs change, in kubectl's way: who has created FILE.lock may change FILE.


PATIENCE_S = 10.0
"""Far longer than anyone needs to change a file; a lock that is older was left behind by a program that was killed."""

_RETRY_S = 0.02


class FileLocked(Exception):
    """Someone else has the lock."""

    def __init__(self, lock: Path) -> None:
        super().__init__(f"{lock} exists: another program changes the file. If none does, remove {lock}")


@contextmanager
def locked(path: Path, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Inside, nobody else who keeps to the rule changes the file. Raises FileLocked, OSError.

    A symbolic link and what it points to are both locked: kubectl locks the name that it is given.
    """
    # The order is the same for everyone, so two that lock both names do not wait for each other.
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
