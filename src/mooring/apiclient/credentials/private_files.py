"""Files that hold secrets: written whole or not at all, and for their owner's eyes only."""

import os
import tempfile
from contextlib import suppress
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
