"""Log lines, letter for letter, in both formats; what is off costs little, and what is secret stays so."""

import io
import json
import logging
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from mooring.kit.logs import HIDDEN, Log, LogFormat, Logs, ObjectRef, check_format, one_line, start_logs
from mooring.kit.shown_text import quoted

HEADER = re.compile(r"^([IWEF])(\d{4} \d\d:\d\d:\d\d\.\d{6}) ( *\d+) (test_logs\.py:\d+)\] (.*)\n$", re.DOTALL)


def a_stream(verbosity: int = 0, log_format: LogFormat = "text", pid: int = 4711) -> tuple[Logs, io.StringIO]:
    """With a tree of loggers of its own, so that tests do not meet in the one that all of a process share."""
    stream = io.StringIO()
    logger = logging.Manager(logging.RootLogger(logging.WARNING)).getLogger("mooring")
    return start_logs(logger, log_format, verbosity, stream, pid), stream


def line_of(write: Callable[[Log], None], verbosity: int = 0) -> str:
    """What a line says after its header."""
    logs, stream = a_stream(verbosity)
    write(logs.log)
    found = HEADER.match(stream.getvalue())
    assert found is not None, stream.getvalue()
    return found[5]


def document_of(write: Callable[[Log], None], verbosity: int = 0) -> dict[str, Any]:
    logs, stream = a_stream(verbosity, "json")
    write(logs.log)
    document: dict[str, Any] = json.loads(stream.getvalue())
    return document


# ---- text


def test_the_header_is_klogs() -> None:
    logs, stream = a_stream(pid=42)
    before = datetime.now().replace(microsecond=0)
    logs.log.info("hello")
    found = HEADER.match(stream.getvalue())
    assert found is not None
    assert (found[1], found[3], found[5]) == ("I", "     42", '"hello"')
    assert datetime.strptime(f"{before.year} {found[2]}", "%Y %m%d %H:%M:%S.%f") >= before


@pytest.mark.parametrize(
    ("write", "letter"),
    [
        (lambda log: log.info("x"), "I"),
        (lambda log: log.v(4, "x"), "I"),
        (lambda log: log.warning("x"), "W"),
        (lambda log: log.error("x"), "E"),
        (lambda log: log.logger.critical("x"), "F"),
        (lambda log: log.logger.debug("x"), "I"),
    ],
    ids=["info", "verbose", "warning", "error", "fatal", "debug of the standard module"],
)
def test_the_letter_is_the_severity(write: Callable[[Log], None], letter: str) -> None:
    logs, stream = a_stream(verbosity=10)
    write(logs.log)
    assert stream.getvalue()[0] == letter
    assert "test_logs.py:" in stream.getvalue(), "the caller's place, not ours"


VALUES: dict[str, tuple[Any, str]] = {
    "text": ("n1", 'k="n1"'),
    "text with quotes": ('say "hi" \\o/', 'k="say \\"hi\\" \\\\o/"'),
    "a tab": ("a\tb", 'k="a\\tb"'),
    "what cannot be printed": ("\x00\x1b\u200b\U000e0001", 'k="\\x00\\x1b\\u200b\\U000e0001"'),
    "other scripts": ("日本é", 'k="日本é"'),
    "number": (3, "k=3"),
    "fraction": (0.5, "k=0.5"),
    "truth": (True, "k=true"),
    "nothing": (None, "k=null"),
    "list": (["a", 1], 'k=["a",1]'),
    "set": ({"b", "a"}, 'k=["a","b"]'),
    "mapping": ({"a": {"b": 1}}, 'k={"a":{"b":1}}'),
    "object": (ObjectRef("web", "default"), 'k="default/web"'),
    "object of the cluster": (ObjectRef("n1"), 'k="n1"'),
    "objects": ([ObjectRef("web", "default")], 'k=[{"name":"web","namespace":"default"}]'),
    "error": (ValueError("no"), 'k="no"'),
    "several lines": ("one\ntwo", "k=<\n\tone\n\ttwo\n >"),
    "several lines with an end": ("one\ntwo\n", "k=<\n\tone\n\ttwo\n >"),
    "one line with an end": ("one\n", "k=<\n\tone\n >"),
    "a line that looks like the end": ("a\n >\nb", "k=<\n\ta\n\t >\n\tb\n >"),
}


@pytest.mark.parametrize(("value", "shown"), VALUES.values(), ids=VALUES.keys())
def test_values_as_text(value: Any, shown: str) -> None:
    assert line_of(lambda log: log.info("m", k=value)) == f'"m" {shown}'


def test_a_value_that_cannot_be_told_does_not_break_the_line() -> None:
    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert line_of(lambda log: log.info("m", k=Broken())) == '"m" k="<panic: RuntimeError>"'


def test_keys_may_be_called_like_our_own_parameters() -> None:
    assert line_of(lambda log: log.error("m", None, message="a", error="b", self="c")) == (
        '"m" message="a" error="b" self="c"'
    )


def test_a_message_with_several_lines_and_percents_stays_one() -> None:
    assert line_of(lambda log: log.info("50% of\nall")) == '"50% of\\nall"'


def test_an_error_comes_first_of_the_keys() -> None:
    def write(log: Log) -> None:
        log.error("Failed", ValueError("boom"), node="n1")

    assert line_of(write) == '"Failed" err="boom" node="n1"'


def test_names_are_joined() -> None:
    assert line_of(lambda log: log.named("PreBind").named("VolumeBinding").info("m")) == (
        '"m" logger="PreBind.VolumeBinding"'
    )


def test_the_last_value_of_a_key_wins_and_an_equal_one_keeps_its_place() -> None:
    assert line_of(lambda log: log.error("m", ValueError("a"), x=1, err="a")) == '"m" err="a" x=1'
    assert line_of(lambda log: log.error("m", ValueError("a"), x=1, err="b")) == '"m" x=1 err="b"'


def test_lines_of_the_standard_module_look_the_same() -> None:
    assert line_of(lambda log: log.logger.warning("%s: %d retries", "GET /", 3)) == '"GET /: 3 retries"'


def test_an_exception_that_nobody_foresaw_comes_with_its_way() -> None:
    def write(log: Log) -> None:
        try:
            raise KeyError("oops")
        except KeyError:
            log.logger.exception("failed")

    line = line_of(write)
    assert line.startswith('"failed" err="\'oops\'" stacktrace=<\n\tTraceback (most recent call last):\n')
    assert line.endswith("\n\tKeyError: 'oops'\n >")


# ---- JSON


def test_a_document() -> None:
    document = document_of(lambda log: log.v(2, "bound", pod=ObjectRef("web", "default"), node="n1", count=3), 2)
    ts, caller = document.pop("ts"), document.pop("caller")
    assert list(document.items()) == [
        ("msg", "bound"),
        ("v", 2),
        ("pod", {"name": "web", "namespace": "default"}),
        ("node", "n1"),
        ("count", 3),
    ]
    assert abs(ts / 1000 - datetime.now().timestamp()) < 60
    assert re.fullmatch(r"kit/test_logs\.py:\d+", caller)


def test_an_error_has_no_verbosity() -> None:
    document = document_of(lambda log: log.named("UnhandledError").error("Error", ValueError("a\nb"), n=1))
    assert [*document] == ["ts", "logger", "caller", "msg", "err", "n"]
    assert document["err"] == "a\nb"


def test_a_key_cannot_take_the_place_of_a_field() -> None:
    document = document_of(lambda log: log.info("m", msg="other", ts=1))
    assert document["msg"] == "m"
    assert document["ts"] > 1


def test_every_document_is_one_line() -> None:
    logs, stream = a_stream(log_format="json")
    logs.log.info("a\nb", k="c\nd", odd={1: object, 2.5: {"x"}})
    assert stream.getvalue().count("\n") == 1


# ---- how much


def test_verbosity_decides_and_can_change() -> None:
    logs, stream = a_stream(verbosity=2)
    log = logs.log
    for verbosity in (0, 2, 3, 10, 99):
        log.v(verbosity, f"at {verbosity}")
    assert re.findall(r'"at (\d+)"', stream.getvalue()) == ["0", "2"]
    assert (log.shows(2), log.shows(3), logs.verbosity) == (True, False, 2)
    below = log.logger.getChild("api")
    below.debug("hidden")
    logs.set_verbosity(10)
    log.v(10, "now")
    below.debug("now too")
    assert re.findall(r'"(now.*|hidden)"', stream.getvalue()) == ["now", "now too"]
    with pytest.raises(ValueError, match="must not be negative"):
        logs.set_verbosity(-1)


def test_what_is_off_is_not_even_turned_into_text() -> None:
    class Costly:
        def __str__(self) -> str:
            raise AssertionError("asked although nobody looks")

    logs, _ = a_stream(verbosity=1)
    logs.log.v(2, "m", k=Costly())


def test_after_closing_nothing_is_written() -> None:
    logs, stream = a_stream()
    logs.close()
    logs.log.logger.addHandler(logging.NullHandler())
    logs.log.info("late")
    assert stream.getvalue() == ""


def test_a_stream_that_is_gone_does_not_matter() -> None:
    logs, stream = a_stream()
    stream.close()
    logs.log.info("to nobody")


@pytest.mark.parametrize("written", ["text", "json"])
def test_formats(written: str) -> None:
    assert check_format(written) == written


def test_a_format_that_is_none() -> None:
    with pytest.raises(ValueError) as caught:
        check_format("xml")
    assert str(caught.value) == '--logging-format: unsupported log format "xml"; there are: text, json'


# ---- keys that are carried


# ---- secrets

SECRETS: dict[str, Callable[[Log], None]] = {
    "by the name of the key": lambda log: log.info("m", token="s3cr3t-value"),
    "deep inside": lambda log: log.info("m", user={"name": "a", "password": "s3cr3t-value"}),
    "a header in a value": lambda log: log.info("m", err="sent Authorization: Bearer s3cr3t-value to"),
    "a header in the message": lambda log: log.info("Bearer s3cr3t-value"),
    "a header in a list": lambda log: log.info("m", headers=["Basic s3cr3t-value"]),
    "a private key": lambda log: log.info("m", pem="-----BEGIN EC PRIVATE KEY-----\ns3cr3t-value"),
    "a line of the standard module": lambda log: log.logger.info("got %s", "Bearer s3cr3t-value"),
    "an error": lambda log: log.error("m", ValueError("Bearer s3cr3t-value")),
}


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize("write", SECRETS.values(), ids=SECRETS.keys())
def test_secrets_are_hidden(write: Callable[[Log], None], log_format: LogFormat) -> None:
    logs, stream = a_stream(log_format=log_format)
    write(logs.log)
    assert "s3cr3t" not in stream.getvalue()
    assert HIDDEN in stream.getvalue()


def test_quoting_is_gos() -> None:
    assert quoted('a"\\\a\b\f\n\r\t\v\x7f') == r'"a\"\\\a\b\f\n\r\t\v\x7f"'


# ---- what comes from outside

HOSTILE = "a\nI1115 07:17:46.000000       1 x.go:1] forged\r\x1b[2J\x7f\x9b\u2028\u202e\x85z"
"""What ends a line for some reader, moves a cursor, or turns the direction of text."""


@pytest.mark.parametrize("log_format", ["text", "json"])
@pytest.mark.parametrize(
    "write",
    [
        lambda log: log.info(HOSTILE),
        lambda log: log.info("m", path=HOSTILE.replace("\n", " ")),
        lambda log: log.info("m", names=[HOSTILE]),
        lambda log: log.info("m", names={HOSTILE: HOSTILE}),
        lambda log: log.info("m", pod=ObjectRef(HOSTILE.replace("\n", ""), "ns")),
        lambda log: log.error("m", ValueError(HOSTILE.replace("\n", ""))),
        lambda log: log.logger.error("standard %s", HOSTILE),
    ],
    ids=["message", "value", "list", "map", "object", "error", "standard"],
)
def test_no_text_forges_a_line(log_format: LogFormat, write: Callable[[Log], None]) -> None:
    logs, stream = a_stream(0, log_format)
    write(logs.log)
    written = stream.getvalue()
    assert len(written.splitlines()) == 1
    assert written.removesuffix("\n").isprintable()
    if log_format == "json":
        assert "\x1b" in str(json.loads(written)) or "x1b" in repr(json.loads(written))
    logs.close()


def test_lines_of_a_value_stay_lines_and_hold_nothing_that_controls_terminals() -> None:
    line = line_of(lambda log: log.info("m", diff="one\n\ttwo\x1b[2J\r\u2028three\n"))
    assert line.endswith('"m" diff=<\n\tone\n\t\ttwo\\x1b[2J\\r\\u2028three\n >')


def test_plain_text_is_brought_to_one_line() -> None:
    assert one_line("GET /a\nb\x1b failed: \N{SNOWMAN}") == "GET /a\\nb\\x1b failed: \N{SNOWMAN}"
    assert one_line("nothing to do") == "nothing to do"


@pytest.mark.parametrize(
    "text",
    [
        "b'Authorization: Bearer secret-token'",
        "Authorization : Token secret-token",
        '{"authorization": "secret-token"}',
        "AUTHORIZATION=secret-token",
        "bearer secret-token",
    ],
)
def test_a_header_that_lets_somebody_in_is_hidden(text: str) -> None:
    assert "secret-token" not in one_line(f"before {text}")
    assert one_line(f"before {text}").startswith("before ")
