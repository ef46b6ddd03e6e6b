"""The process that answers one question: reads it with the cluster from standard input, writes the answer, and ends.

`child_questions.py` starts it:  python -m mooring.dashboard.questions.question_process MEMORY_BYTES CPU_SECONDS

Standard output gets a status on the first line (that of HTTP), and then JSON. What plugins print goes to standard error.
"""

import gc
import os
import resource
import signal
import sys
import traceback
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, BinaryIO

NICENESS = 10
OK, NOT_FOUND, UNUSABLE, UNABLE = 200, 404, 422, 503
_TOO_MUCH_MEMORY = (
    "the answer needs more memory than {:,} MiB, the limit of questions; ask a command such as `mooring explain`"
)


Answer = Callable[[BinaryIO], dict[str, Any]]
"""Makes the document of an answer from the lines of the question."""


def main(memory_bytes: int, cpu_s: int, answer: Answer | None = None) -> None:
    """Answer within these limits."""
    limit(memory_bytes, cpu_s)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    gc.disable()  # the process ends after its answer, and the memory of what it reads stays in use
    try:
        status, body = answered(sys.stdin.buffer, answer or answer_to)
    except MemoryError:
        status, body = UNABLE, {"message": _TOO_MUCH_MEMORY.format(memory_bytes >> 20)}
    write(answers, status, body)


def limit(memory_bytes: int, cpu_s: int) -> None:
    """Be modest: others come first on the processor, and the system ends this process first if memory is short."""
    os.nice(NICENESS)
    resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))
    resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, cpu_s + 1))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGXCPU, signal.SIG_DFL)
    with suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:  # Linux only
        file.write("1000")


def answered(lines: BinaryIO, answer: Answer) -> tuple[int, Any]:
    """The status and the document of the answer."""
    from mooring.inputs.input_errors import NoSuchPod, problems_of

    try:
        return OK, answer(lines)
    except MemoryError:
        raise
    except Exception as fault:
        problems = problems_of(fault, "configuration")
        if problems is None:
            traceback.print_exc()
            told = f"{type(fault).__name__}: {fault}"[:500]
            return UNABLE, {"message": f"the question cannot be answered: {told}"}
        return NOT_FOUND if isinstance(fault, NoSuchPod) else UNUSABLE, {"message": "\n".join(problems)}


def answer_to(lines: BinaryIO) -> dict[str, Any]:
    """The answer of the command that asks the same. Imports follow the question: those of a simulation take a fifth of a
    second."""
    from mooring.dashboard.questions.asked_cluster import read_header, received

    header = read_header(lines.readline())
    loaded = received(header, _whole(lines))
    if header.changes is not None:
        from mooring.dashboard.questions.page_questions import what_if_content

        return what_if_content(loaded, header.changes, header.prices)
    if header.rejections is not None:
        from mooring.dashboard.questions.page_questions import rejections_on

        return rejections_on(loaded, header.rejections.node)
    from mooring.answers.explain.explain import explain_alone_or_in_group

    assert header.explain is not None
    # Not `explain_named`: a namespace may have the name of a kind, and then it would look for a workload.
    asked = loaded.pod(f"{header.explain.namespace}/{header.explain.name}")
    return explain_alone_or_in_group(loaded, asked).to_dict()


def _whole(lines: Iterable[bytes]) -> Iterable[bytes]:
    """The lines up to the one that says that all are there. A parent that was killed leaves half of them."""
    for line in lines:
        if line == END:
            return
        yield line
    raise SystemExit("the parent has ended")


END = b".\n"
"""The last line."""


def write(answers: BinaryIO, status: int, body: Any) -> None:
    """The status in a line of its own, then the document."""
    from mooring.kit.shown_text import json_bytes

    with answers:
        answers.write(b"%d\n" % status + json_bytes(body))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
