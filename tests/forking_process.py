"""A process that has imported all commands of `mooring`, and forks for each one that it is asked to run (forked_commands.py).

Requests are lines of JSON on its standard input, answers are lines on its standard output. A fork goes on where the process
began: with a command, its streams and its environment, and ends as a program does.
"""

import json
import os
import runpy
import sys
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import mooring.cli.commands

MAIN = "mooring.cli.main"
READ, WRITE = os.O_RDONLY, os.O_WRONLY | os.O_APPEND


def become(request: dict[str, Any]) -> None:
    """The streams, the environment and the arguments of this process are those of the request. Nothing is left in the
    buffers of the streams: the next request comes after the answer to this one."""
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, flags in enumerate((READ, WRITE, WRITE)):
        os.dup2(os.open(request["streams"][number], flags), number)
    sys.argv = ["mooring", *request["arguments"]]


def is_fork() -> bool:
    """Answer requests until there are no more. True in a fork that has become what a request asks for."""
    for line in sys.stdin.buffer:
        child = os.fork()
        if child == 0:
            become(json.loads(line))
            return True
        _, status, usage = os.wait4(child, 0)
        answer = {"status": os.waitstatus_to_exitcode(status), "peak_bytes": usage.ru_maxrss * 1024}
        print(json.dumps(answer), flush=True)
    return False


if __name__ == "__main__":
    for module in iter_modules(mooring.cli.commands.__path__, "mooring.cli.commands."):
        import_module(module.name)
    import_module(MAIN)
    del sys.modules[MAIN]  # it runs as the main module
    if is_fork():
        runpy.run_module(MAIN, run_name="__main__", alter_sys=True)
