"""Settings that a process of Mooring makes once when it starts: threads of NumPy, garbage collection, open files, signals,
the event loop."""

import asyncio
import errno
import gc
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")


# ---- threads


ONE_BLAS_THREAD = {"OPENBLAS_NUM_THREADS": "1"}
"""The environment in which NumPy's linear algebra starts no threads. Mooring multiplies no large matrices."""


def limit_blas_threads() -> None:
    """Let NumPy start no threads, unless the environment says how many. Call it before NumPy is imported.

    Hot: OpenBLAS starts a thread for each processor when it is loaded, and these wait for work in a loop: 2 % of the
    processor time of `mooring run` for 5,000 pods. Only commands call this: a program that imports Mooring may have a use
    for the threads.
    """
    for name, value in ONE_BLAS_THREAD.items():
        os.environ.setdefault(name, value)


# ---- garbage collection


_YOUNG, _MIDDLE, _OLD = 100_000, 20, 100
"""Thresholds of the three generations of the collector; Python's own begin with hundreds.

A scheduler of a large cluster keeps millions of small objects, and a full collection visits all of them. Hardly any is
part of a cycle, so that reference counts free nearly everything without the collector.
"""


_YOUNG_WHILE_LISTING = 1_000_000
"""The first of them while the objects of a cluster are read, all of which stay."""


def relax_collector() -> None:
    """Exempt the objects that exist now from garbage collection, and collect the others far less often.

    Call it after the first list of objects: `gc.freeze` is for what stays until the process ends.

    Hot: nothing is collected before. Lists leave no objects in cycles, and to look for them takes 0.3 s after a list of
    20,000 pods.
    """
    gc.freeze()
    gc.set_threshold(_YOUNG, _MIDDLE, _OLD)


def expect_lists() -> None:
    """Collect next to nothing until `relax_collector`: the first lists of objects are about to be read.

    Not off: a server that cannot be reached for days leaves exceptions, which are in cycles.
    """
    gc.set_threshold(_YOUNG_WHILE_LISTING, _MIDDLE, _OLD)


@contextmanager
def without_collector() -> Iterator[None]:
    """Collect no garbage meanwhile, and nothing of what was made. Hot: for imports, which create 90,000 objects that stay.
    To look for garbage among them took 0.1 s of 0.65 s while they were made, and 0.07 s when the collector was on again;
    2,400 of them are in cycles."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        if was_enabled:
            gc.enable()


# ---- open files


UNKNOWN_LIMIT = 1024
"""The limit that callers assume on a system that does not tell it: the usual soft limit of Linux."""
_ENOUGH = 1 << 16
"""The highest limit to set. Mooring has no use for more, and a hard limit may be infinite, which some systems (macOS) do not
accept as a soft limit."""


def raise_descriptor_limit() -> int:
    """Raise the soft limit of open files to the hard one, as Go programs do at their start. Returns the limit in force.

    Servers divide it among their connections, so that connections never take the descriptors of the journal or of the
    connection to the API server.
    """
    if sys.platform == "win32":
        return UNKNOWN_LIMIT
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft


# ---- signals


def on_stop_signals(stop: Callable[[signal.Signals], None], reload: Callable[[], None] | None = None) -> None:
    """Have the running event loop call `stop` for each SIGTERM, SIGINT and SIGHUP; with `reload`, call that for a SIGHUP
    which is not the end of the terminal.

    A terminal that closes sends SIGHUP, whose default action ends a process with requests under way. Where SIGHUP is
    ignored, it stops nothing: that is what nohup is for.
    """
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    is_ignored, had_terminal = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN, _has_terminal()

    def hang_up() -> None:
        _leave_closed_terminal()
        is_closed = had_terminal and not _has_terminal()
        if reload is not None and not is_closed:
            reload()
        elif not is_ignored:
            stop(signal.SIGHUP)

    if reload is not None or not is_ignored:
        loop.add_signal_handler(signal.SIGHUP, hang_up)


def _has_terminal() -> bool:
    """Whether the process has a controlling terminal. It loses that when the terminal closes."""
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _leave_closed_terminal() -> None:
    """Have output that would go to a closed terminal discarded: each write would fail, and with it the orderly end."""
    import termios

    for descriptor in (1, 2):
        try:
            termios.tcgetattr(descriptor)
        except termios.error as fault:
            if fault.args[0] == errno.EIO:
                nothing = os.open(os.devnull, os.O_WRONLY)
                os.dup2(nothing, descriptor)
                os.close(nothing)


# ---- the event loop


_READ_BYTES = 256 << 10
"""The bytes that uvloop allocates for each read of a TLS connection, and then shrinks to the bytes that it got."""


def keep_read_buffers() -> None:
    """Let the C library take the buffers of TLS reads from memory that the process has.

    Hot: glibc maps a block above 128 KiB anew from the kernel and unmaps it when it is freed, which takes 13 µs for each
    read. It raises that limit to the size of the largest mapped block that was freed; the buffers of uvloop do not raise
    it, because they have shrunk by then.
    """
    bytes(4 * _READ_BYTES)


def run_event_loop(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine as asyncio.run does, on uvloop if it is installed, which halves the cost of TLS."""
    keep_read_buffers()
    try:
        import uvloop
    except ImportError:
        return asyncio.run(main)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(main)
