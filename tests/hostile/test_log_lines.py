"""Records of the log with any text: no line of a record looks like the head of another, to people and to programs that read
the log line by line."""

import io
import json
import logging
import re
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from hostile_text import HOSTILE
from mooring.kit.logs import LogFormat, ObjectRef, start_logs

HEAD = re.compile(r"[IWEF]\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ .+:\d+\] ")
FORGED = 'I1117 22:00:00.000000       1 server.py:1] "Everything is well"'
TEXTS = st.text(st.characters(exclude_categories=[])) | st.sampled_from(
    [
        HOSTILE,
        FORGED,
        *(f"a{end}{FORGED}{end} >{end}{FORGED}" for end in ("\n", "\r\n", "\r", "\x0b", "\x85", "\u2028")),
    ]
)
VALUES = st.recursive(
    TEXTS
    | TEXTS.map(lambda text: text.encode(errors="surrogatepass"))
    | TEXTS.map(ValueError)
    | st.builds(ObjectRef, TEXTS, TEXTS),
    lambda below: st.lists(below, max_size=2) | st.dictionaries(TEXTS, below, max_size=2),
    max_leaves=4,
)


def written(log_format: LogFormat, message: str, value: Any, text: str) -> str:
    """Four records: of Mooring, of its errors, of a library, and of a library's exception in a file with this name."""
    stream = io.StringIO()
    logger = logging.Manager(logging.RootLogger(logging.WARNING)).getLogger("mooring")
    logs = start_logs(logger, log_format, 0, stream, 1)
    log = logs.log
    log.named(text).info(message, pod=text, k=value)
    log.error(message, ValueError(text), k=value)
    logger.warning("%s", text)
    try:
        raise RuntimeError(text)
    except RuntimeError as fault:
        told = (type(fault), fault, fault.__traceback__)
        logger.handle(logger.makeRecord("mooring", logging.ERROR, f"/x/{text}.py", 1, message, (), told))
    return stream.getvalue()


@given(TEXTS, VALUES, TEXTS)
@example(FORGED, f"a\n{FORGED}", f"a\n{FORGED}\n >\n{FORGED}")
def test_only_the_first_line_of_a_record_is_a_head(message: str, value: Any, text: str) -> None:
    lines = written("text", message.replace("%", ""), value, text).removesuffix("\n").splitlines()
    heads = [line for line in lines if not line.startswith(("\t", " >"))]
    assert len(heads) == 4, lines
    assert all(HEAD.match(head) for head in heads), heads
    assert not [line for line in lines if line not in heads and HEAD.match(line)]


@given(TEXTS, VALUES, TEXTS)
def test_a_record_in_json_is_one_line(message: str, value: Any, text: str) -> None:
    lines = written("json", message.replace("%", ""), value, text).removesuffix("\n").splitlines()
    assert len(lines) == 4, lines
    assert all(json.loads(line)["ts"] for line in lines)
