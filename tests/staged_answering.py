"""A process that answers questions of a dashboard and misbehaves as the environment says: it stands for the real one."""

import os
import signal
import sys
import time
from typing import Any, BinaryIO

from mooring.dashboard.questions import question_process as answering

HOW = "STAGED_ANSWERING"


def misbehave(lines: BinaryIO) -> dict[str, Any]:
    how = os.environ[HOW]
    if how == "not reading":
        time.sleep(600)
    for line in lines:
        if line == answering.END:
            break
    match how:
        case "sleep":
            time.sleep(600)
        case "spin":
            while True:
                pass
        case "fill":
            return {"filled": bytes(1 << 45)}
        case "flood":
            return {"flood": "x" * (1 << 20)}
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(7)
        case "raise":
            raise RuntimeError("a plugin\nfailed")
        case "print":
            print("noise of a plugin")
    return {"limits": {"nice": os.nice(0)}}


if __name__ == "__main__":
    answering.main(int(sys.argv[1]), int(sys.argv[2]), misbehave)
