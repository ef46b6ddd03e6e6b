"""What the pages say, word for word."""

import io
import json
import logging
from dataclasses import dataclass, field

import pytest
import yaml

from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.logs import Log, start_logs
from mooring.kit.metrics import METRICS_TYPE
from mooring.serve.pages.pages import (
    Build,
    Check,
    DocumentForm,
    Health,
    HealthPage,
    PageReply,
    PageRequest,
    Pages,
    Sources,
    health_pages,
    wanted_form,
)

START_NS = 1_800_000_000 * NS_PER_S
SILENT = Log(logging.Logger("silent", logging.CRITICAL + 1))
WARNING = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees "
    "and is for debugging purposes only.\n"
)


@dataclass
class State:
    is_stopping: bool = False
    is_synced: bool = True
    verbosity: int = 0
    resets: int = 0
    observed: list[tuple[str, str, bool]] = field(default_factory=list)
    unwatched: list[str] = field(default_factory=list)

    def set_verbosity(self, verbosity: int) -> None:
        self.verbosity = verbosity

    def reset(self) -> None:
        self.resets += 1


def the_pages(
    state: State, is_elected: bool = True, is_profiling: bool = True, gates: dict[str, bool] | None = None
) -> Pages:
    sources = Sources(
        metrics=lambda: b"scheduler_pending_pods 1\n",
        resource_metrics=lambda: b"",
        sli_metrics=lambda: b"kubernetes_healthcheck 1\n",
        reset_metrics=state.reset,
        configuration=lambda: {"kind": "KubeSchedulerConfiguration", "parallelism": 16},
        flags=lambda: {"v": "2", "bind-address": "0.0.0.0"},
        set_verbosity=state.set_verbosity if is_profiling else None,
        protobuf_metrics=lambda: b"protobuf",
    )
    health = Health(is_elected, lambda: state.is_stopping, lambda: state.is_synced, lambda: state.unwatched)
    clock = VirtualClock(START_NS + 3_725 * NS_PER_S)
    observe = lambda name, page, passed: state.observed.append((name, page, passed))  # noqa: E731
    build = Build(language_version="python3.11.7")
    return Pages(sources, health_pages(health, SILENT, observe), clock, START_NS, build, gates=gates)


def ask(path: str, state: State | None = None, method: str = "GET", accept: str = "", body: bytes = b"") -> PageReply:
    path, _, query = path.partition("?")
    pairs = tuple((name, value) for name, _, value in (part.partition("=") for part in query.split("&") if part))
    return the_pages(state or State()).answer(PageRequest(method, path, pairs, accept, body))


def text_of(answer: PageReply) -> tuple[int, str]:
    return answer.status, answer.body.decode()


# ---- health

NOT_SYNCED = State(is_synced=False)
HEALTH: dict[str, tuple[str, State, int, str]] = {
    "healthz": ("/healthz", State(), 200, "ok"),
    "livez, whatever is wrong": ("/livez", State(True, False), 200, "ok"),
    "readyz": ("/readyz", State(), 200, "ok"),
    "healthz, told in full": (
        "/healthz?verbose",
        State(),
        200,
        "[+]leaderElection ok\nhealthz check passed\n",
    ),
    "readyz, told in full": (
        "/readyz?verbose",
        State(),
        200,
        "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nreadyz check passed\n",
    ),
    "a kind that the server does not serve is no failure": (
        "/readyz?verbose",
        State(unwatched=["the server does not serve x"]),
        200,
        "[+]leaderElection ok\n[+]shutdown ok\n[+]sched-handler-sync ok\nnote: the server does not serve x\n"
        "readyz check passed\n",
    ),
    "an excluded check, and one that is not there": (
        "/readyz?verbose&exclude=shutdown&exclude=foo&exclude=bar",
        State(is_stopping=True),
        200,
        "[+]leaderElection ok\n[+]shutdown excluded: ok\n[+]sched-handler-sync ok\n"
        'warn: some health checks cannot be excluded: no matches for "bar","foo"\nreadyz check passed\n',
    ),
    "not synced": (
        "/readyz",
        NOT_SYNCED,
        500,
        "[+]leaderElection ok\n[+]shutdown ok\n[-]sched-handler-sync failed: reason withheld\nreadyz check failed\n",
    ),
    "stopping": (
        "/readyz?exclude=sched-handler-sync",
        State(is_stopping=True),
        500,
        "[+]leaderElection ok\n[-]shutdown failed: reason withheld\n"
        "[+]sched-handler-sync excluded: ok\nreadyz check failed\n",
    ),
    "one check": ("/readyz/shutdown", State(), 200, "ok"),
    "one check that fails": (
        "/readyz/sched-handler-sync",
        NOT_SYNCED,
        500,
        "internal server error: handlers are not fully synchronized\n",
    ),
    "stopping, by itself": (
        "/readyz/shutdown",
        State(is_stopping=True),
        500,
        "internal server error: process is shutting down\n",
    ),
    "livez has ping": ("/livez/ping", State(), 200, "ok"),
    "a check that is not there": ("/healthz/ping", State(), 404, "404 page not found\n"),
}


@pytest.mark.parametrize(("path", "state", "status", "text"), HEALTH.values(), ids=HEALTH.keys())
def test_health(path: str, state: State, status: int, text: str) -> None:
    assert text_of(ask(path, state)) == (status, text)


def test_without_leader_election_healthz_pings() -> None:
    pages = the_pages(State(), is_elected=False)
    assert text_of(pages.answer(PageRequest(path="/healthz", query=(("verbose", ""),)))) == (
        200,
        "[+]ping ok\nhealthz check passed\n",
    )
    assert pages.answer(PageRequest(path="/readyz/leaderElection")).status == 404


def test_checks_that_ran_are_observed() -> None:
    state = State(is_synced=False)
    ask("/readyz?exclude=shutdown", state)
    assert state.observed == [("leaderElection", "readyz", True), ("sched-handler-sync", "readyz", False)]


def test_the_reason_goes_to_the_log_at_verbosity_2() -> None:
    stream = io.StringIO()
    logs = start_logs(logging.Logger("health"), verbosity=2, stream=stream, pid=1)
    HealthPage("readyz", [Check("a", lambda: "the disk is full")], logs.log).answer(PageRequest())
    assert '] "a check failed: readyz" reasons=<\n\t[-]a failed: the disk is full\n >\n' in stream.getvalue()


# ---- metrics, configuration, flags


def test_metrics() -> None:
    answer = ask("/metrics")
    assert text_of(answer) == (200, "scheduler_pending_pods 1\n")
    assert answer.content_type == METRICS_TYPE
    assert ("Process-Start-Time-Unix", "1800000000") in answer.headers
    assert text_of(ask("/metrics/slis")) == (200, "kubernetes_healthcheck 1\n")
    assert text_of(ask("/metrics/resources")) == (200, "")


PROTOBUF = "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited"
ACCEPTED: dict[str, tuple[str, bool]] = {
    "nothing": ("", False),
    "anything": ("*/*", False),
    "text": ("text/plain;version=0.0.4", False),
    "protobuf": (PROTOBUF, True),
    "protobuf and text, as Prometheus asks for native histograms": (
        f"{PROTOBUF};q=0.6,application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.4,*/*;q=0.2",
        True,
    ),
    "text rather than protobuf": (f"{PROTOBUF};q=0.3,text/plain;q=0.4", False),
    "another message": (PROTOBUF.replace("MetricFamily", "Metric"), False),
    "protobuf as text, which is not served": (PROTOBUF.replace("delimited", "text"), False),
    "a text of another version, then protobuf": (f"text/plain;version=1.0.0,{PROTOBUF};q=0.1", True),
}


@pytest.mark.parametrize(("accept", "is_protobuf"), ACCEPTED.values(), ids=ACCEPTED.keys())
def test_v137_20_5_metrics_in_the_form_that_is_asked_for(accept: str, is_protobuf: bool) -> None:
    answer = ask("/metrics", accept=accept)
    form = "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited"
    assert (answer.body == b"protobuf") is is_protobuf
    assert answer.content_type == (f"{form}; escaping=underscores" if is_protobuf else METRICS_TYPE)
    assert ("Process-Start-Time-Unix", str(START_NS // NS_PER_S)) in answer.headers


def test_metrics_are_reset_by_delete() -> None:
    state = State()
    assert text_of(ask("/metrics", state, "DELETE")) == (200, "metrics reset\n")
    assert state.resets == 1


def test_the_configuration() -> None:
    answer = ask("/configz")
    assert json.loads(answer.body) == {"componentconfig": {"kind": "KubeSchedulerConfiguration", "parallelism": 16}}
    assert answer.content_type == "application/json"


VERBOSITY: dict[str, tuple[str, bytes, int, str]] = {
    "set": ("PUT", b"5", 200, "successfully set klog.logging.verbosity to 5\n"),
    "a word": ("PUT", b"many", 400, 'strconv.ParseUint: parsing "many": invalid syntax\n'),
    "negative": ("PUT", b"-1", 400, 'strconv.ParseUint: parsing "-1": invalid syntax\n'),
    "nothing": ("PUT", b"", 400, 'strconv.ParseUint: parsing "": invalid syntax\n'),
    "huge": ("PUT", b"9999999999", 400, 'strconv.ParseUint: parsing "9999999999": value out of range\n'),
    "read": ("GET", b"", 406, "unsupported http method\n"),
}


@pytest.mark.parametrize(("method", "body", "status", "text"), VERBOSITY.values(), ids=VERBOSITY.keys())
def test_the_verbosity(method: str, body: bytes, status: int, text: str) -> None:
    state = State(verbosity=1)
    assert text_of(ask("/debug/flags/v", state, method, body=body)) == (status, text)
    assert state.verbosity == (5 if status == 200 else 1)


def test_debug_is_there_with_profiling_only() -> None:
    assert b"<title>/debug/flags/</title>" in ask("/debug/flags").body
    assert b"<title>/debug/flags/</title>" in ask("/debug/flags/other").body
    without = the_pages(State(), is_profiling=False)
    for path in ("/debug/flags", "/debug/flags/v", "/debug/flags/other"):
        assert without.answer(PageRequest("PUT", path)).status == 404


@pytest.mark.parametrize("path", ["/", "/nothing", "/healthz/", "/metrics/", "/debug/pprof/"])
def test_anything_else_is_not_found(path: str) -> None:
    assert text_of(ask(path)) == (404, "404 page not found\n")


# ---- z-pages

FULL = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz"
FORMS: dict[str, tuple[str, DocumentForm | None]] = {
    "nothing said": ("", DocumentForm("text/plain")),
    "anything": ("*/*", DocumentForm("text/plain")),
    "any text": ("text/*", DocumentForm("text/plain")),
    "the full name": (FULL, DocumentForm("application/json", "v1beta1")),
    "with spaces, as people write": (FULL.replace(";", "; "), DocumentForm("application/json", "v1beta1")),
    "yaml": (FULL.replace("json", "yaml"), DocumentForm("application/yaml", "v1beta1")),
    "the old version": (FULL.replace("v1beta1", "v1alpha1"), DocumentForm("application/json", "v1alpha1")),
    "a version that is not": (FULL.replace("v1beta1", "v2"), None),
    "another kind": (FULL.replace("Statusz", "Flagz"), None),
    "without its group": ("application/json;v=v1beta1;as=Statusz", None),
    "plain JSON": ("application/json", None),
    "a browser without */*": ("text/html", None),
    "a browser": ("text/html,*/*;q=0.8", DocumentForm("text/plain")),
    "the second wish": (f"text/html,{FULL}", DocumentForm("application/json", "v1beta1")),
    "by weight": (f"text/plain;q=0.5,{FULL};q=0.9", DocumentForm("application/json", "v1beta1")),
}


@pytest.mark.parametrize(("accept", "form"), FORMS.values(), ids=FORMS.keys())
def test_which_form_is_wanted(accept: str, form: DocumentForm | None) -> None:
    assert wanted_form(accept, "Statusz") == form


def test_status_as_text() -> None:
    answer = ask("/statusz")
    assert answer.content_type == "text/plain; charset=utf-8"
    assert answer.body.decode() == (
        f"\nkube-scheduler statusz\n{WARNING}\n"
        "Started: Fri Jan 15 08:00:00 UTC 2027\n"
        "Up: 1 hr 02 min 05 sec\n"
        "Go version: python3.11.7\n"
        "Binary version: 1.37.0\n"
        "Emulation version: 1.37\n"
        "Paths: /configz /flagz /healthz /livez /metrics /readyz\n"
    )


STATUS = {
    "kind": "Statusz",
    "apiVersion": "config.k8s.io/v1beta1",
    "metadata": {"name": "kube-scheduler"},
    "startTime": "2027-01-15T08:00:00Z",
    "uptimeSeconds": 3725,
    "goVersion": "python3.11.7",
    "binaryVersion": "1.37.0",
    "emulationVersion": "1.37",
    "paths": ["/configz", "/flagz", "/healthz", "/livez", "/metrics", "/readyz"],
}


def test_status_as_a_document() -> None:
    answer = ask("/statusz", accept=FULL)
    assert (json.loads(answer.body), answer.content_type, [*answer.headers]) == (STATUS, "application/json", [])
    answer = ask("/statusz", accept=FULL.replace("json", "yaml"))
    assert (yaml.safe_load(answer.body), answer.content_type) == (STATUS, "application/yaml")


def test_the_old_version_warns() -> None:
    answer = ask("/statusz", accept=FULL.replace("v1beta1", "v1alpha1"))
    assert json.loads(answer.body) == STATUS | {"apiVersion": "config.k8s.io/v1alpha1"}
    assert [*answer.headers] == [
        ("Warning", '299 - "This version of the statusz endpoint is deprecated. Please use a newer version."')
    ]


def test_a_form_that_is_not_offered() -> None:
    answer = ask("/statusz", accept="application/json")
    assert answer.status == 406
    assert json.loads(answer.body) == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "only the following media types are accepted: application/json, application/yaml, text/plain",
        "reason": "NotAcceptable",
        "code": 406,
    }


def test_flags() -> None:
    assert ask("/flagz").body.decode() == f"\nkube-scheduler flagz\n{WARNING}bind-address=0.0.0.0\nv=2\n"
    answer = ask("/flagz", accept=FULL.replace("Statusz", "Flagz"))
    assert json.loads(answer.body) == {
        "kind": "Flagz",
        "apiVersion": "config.k8s.io/v1beta1",
        "metadata": {"name": "kube-scheduler"},
        "flags": {"bind-address": "0.0.0.0", "v": "2"},
    }


def test_questions_keep_repeated_parameters() -> None:
    question = PageRequest(query=(("exclude", "a"), ("verbose", ""), ("exclude", "b")))
    assert question.values("exclude") == ["a", "b"]


@pytest.mark.parametrize(("path", "gate"), [("/flagz", "ComponentFlagz"), ("/statusz", "ComponentStatusz")])
def test_a_page_whose_gate_is_off_is_not_there(path: str, gate: str) -> None:
    for is_on, status in ((True, 200), (False, 404)):
        pages = the_pages(State(), gates={gate: is_on})
        assert pages.answer(PageRequest("GET", path, (), "", b"")).status == status


def test_the_status_page_lists_no_page_that_is_off() -> None:
    pages = the_pages(State(), gates={"ComponentFlagz": False})
    text = pages.answer(PageRequest("GET", "/statusz", (), "", b"")).body.decode()
    assert "Paths: /configz /healthz /livez /metrics /readyz\n" in text
