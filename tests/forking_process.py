"""A process that has imported all commands of `mooring`, and forks for each one that forked_commands.py asks for.

Its standard input is a socket. A request is a line of JSON with four descriptors: the streams of the command, and a pipe for
what becomes of it. A fork goes on where the process began: with a command, its streams and its environment, and ends as a
program does. Between the two is a fork that only waits for the command: it writes a line with the process id, and a line
with exit status and memory.
"""

import json
import os
import runpy
import signal
import socket
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import mooring.cli.commands
from forked_commands import save_coverage

MAIN = "mooring.cli.main"
DESCRIPTORS = 4


def next_request(asked: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """The next request and its descriptors; None, if there are no more."""
    content, descriptors, _, _ = socket.recv_fds(asked, 1 << 16, DESCRIPTORS)
    while content and not content.endswith(b"\n"):
        content += asked.recv(1 << 16)
    return (json.loads(content), descriptors) if content else None


def become(request: dict[str, Any], streams: list[int]) -> None:
    """The streams, the environment, the directory and the arguments of this process are those of the request. Objects of
    streams are made again, because they remember whether a seek is possible."""
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    for name, mode, buffering in (("stdin", "r", -1), ("stdout", "w", -1), ("stderr", "w", 1)):
        old = getattr(sys, name)
        new = open(old.fileno(), mode, buffering, old.encoding, old.errors, closefd=False)  # noqa: SIM115
        setattr(sys, name, new)
        setattr(sys, f"__{name}__", new)
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    sys.argv = ["mooring", *request["arguments"]]


def is_command(request: dict[str, Any], streams: list[int], told: int) -> bool:
    """True in a fork that has become what the request asks for. The process that waits for it does not return."""
    child = os.fork()
    if child == 0:
        os.close(told)
        become(request, streams)
        return True
    for stream in (0, *streams):
        os.close(stream)
    os.write(told, b"%d\n" % child)
    _, status, usage = os.wait4(child, 0)
    ended = {"status": os.waitstatus_to_exitcode(status), "peak_bytes": usage.ru_maxrss * 1024}
    os.write(told, json.dumps(ended).encode() + b"\n")
    os._exit(0)  # at once: the end of an interpreter with all modules takes longer than most commands


def is_fork() -> bool:
    """Answer requests until there are no more. True in a process that has become what a request asks for."""
    asked = socket.socket(fileno=0)
    waiting: set[int] = set()
    while (found := next_request(asked)) is not None:
        request, (*streams, told) = found
        waiting -= {pid for pid in waiting if os.waitpid(pid, os.WNOHANG)[0]}
        child = os.fork()
        if child == 0:
            asked.detach()
            return is_command(request, streams, told)
        waiting.add(child)
        for descriptor in (*streams, told):
            os.close(descriptor)
    return False


if __name__ == "__main__":
    for module in iter_modules(mooring.cli.commands.__path__, "mooring.cli.commands."):
        import_module(module.name)
    import_module(MAIN)
    del sys.modules[MAIN]  # it runs as the main module
    save_coverage()
    if is_fork():
        runpy.run_module(MAIN, run_name="__main__", alter_sys=True)
