"""`/healthz`, `/livez` and `/readyz`: the server's checks, each also at a path of its own."""

from collections.abc import Set

from mooring.apiserver.server.request import Answer, Request
from mooring.model.api_errors import quoted

_ALIVE = ("ping", "log", "etcd")
CHECKS = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": (*_ALIVE, "etcd-readiness", "informer-sync", "shutdown"),
}
"""By path. They have the names that kube-apiserver gives them, because probes exclude them by name."""
STORAGE = frozenset(("etcd", "etcd-readiness"))
"""Fail while what is written cannot be made durable."""

_TEXT = "text/plain; charset=utf-8"
_NO_SNIFFING = [("X-Content-Type-Options", "nosniff")]


def health(request: Request, failing: Set[str]) -> Answer | None:
    """None: there is no such check. `failing` names the checks that fail; why they do is for the log, not for everyone."""
    name, _, check = request.path.removeprefix("/").partition("/")
    if name not in CHECKS or (request.path != f"/{name}" and check not in CHECKS[name]):
        return None
    if not check:
        return _summary(name, request, failing)
    if check in failing:
        return Answer(500, "internal server error: reason withheld\n", _TEXT, _NO_SNIFFING)
    return Answer(200, "ok", _TEXT)


def _summary(name: str, request: Request, failing: Set[str]) -> Answer:
    """In short, unless it is asked for in full or something fails."""
    excluded = set(filter(None, request.query.get("exclude", "").split(",")))
    lines = [_line(check, check in excluded, check in failing) for check in CHECKS[name]]
    if unknown := sorted(excluded - set(CHECKS[name])):
        lines.append(f"warn: some health checks cannot be excluded: no matches for {','.join(map(quoted, unknown))}")
    failed = (failing & set(CHECKS[name])) - excluded
    if not failed and "verbose" not in request.query:
        return Answer(200, "ok", _TEXT, _NO_SNIFFING)
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return Answer(500 if failed else 200, "\n".join(lines) + "\n", _TEXT, _NO_SNIFFING)


def _line(check: str, is_excluded: bool, is_failing: bool) -> str:
    if is_excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if is_failing else f"[+]{check} ok"
