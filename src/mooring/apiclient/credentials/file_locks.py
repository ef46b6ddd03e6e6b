"""Locks of files that several programs change, in kubectl's way: who has created FILE.lock may change FILE."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

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
