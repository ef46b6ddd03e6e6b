"""/healthz, /livez and /readyz: named checks, all at once or one by one. Why one fails is for the log, not for callers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from mooring.kit.logs import Log
from mooring.live.endpoints.answers import PageReply, PageRequest, failure, plain
from mooring.model.api_errors import quoted

Observe = Callable[[str, str, bool], None]
"""Told of every check that runs: its name, the page (`readyz`), whether it passed; for kubernetes_healthcheck."""


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    problem: Callable[[], str]
    """What is wrong; empty if nothing is."""


PING = Check("ping", lambda: "")


@dataclass(frozen=True, slots=True)
class Health:
    """What the checks of a scheduler ask."""

    is_elected: bool
    """Whether there is leader election at all."""
    is_stopping: Callable[[], bool]
    is_synced: Callable[[], bool]
    """Whether every informer has listed, and every handler has seen what was listed."""


def health_pages(health: Health, log: Log, observe: Observe = lambda name, page, passed: None) -> "list[HealthPage]":
    """The three pages of a scheduler, with upstream's checks in upstream's order."""
    # Parity: the elector is never attached to this check in 1.36, so it always passes.
    election = [Check("leaderElection", lambda: "")] if health.is_elected else []
    ready = [
        Check("shutdown", lambda: "process is shutting down" if health.is_stopping() else ""),
        Check("sched-handler-sync", lambda: "" if health.is_synced() else "handlers are not fully synchronized"),
    ]
    return [
        HealthPage("healthz", election or [PING], log, observe),
        HealthPage("livez", [PING], log, observe),
        HealthPage("readyz", [*election, *ready], log, observe),
    ]


@dataclass(frozen=True, slots=True)
class HealthPage:
    name: str
    checks: Sequence[Check]
    log: Log
    observe: Observe = field(default=lambda name, page, passed: None)

    def answer(self, question: PageRequest) -> PageReply:
        excluded = dict.fromkeys(question.values("exclude"))
        lines, problems = self._run(excluded)
        unknown = sorted(set(excluded) - {check.name for check in self.checks})
        if unknown:
            names = ",".join(map(quoted, unknown))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}")
        if problems:
            failed = ",".join(problems)
            reasons = "".join(f"[-]{name} failed: {problem}\n" for name, problem in problems.items())
            self.log.v(2, f"{failed} check failed: {self.name}", reasons=reasons)
            return failure("\n".join([*lines, f"{self.name} check failed"]), 500)
        if not any(name == "verbose" for name, _ in question.query):
            return plain("ok")
        return plain("".join(f"{line}\n" for line in [*lines, f"{self.name} check passed"]))

    def _run(self, excluded: dict[str, None]) -> tuple[list[str], dict[str, str]]:
        """A line for each check, and what is wrong by the name of the check."""
        lines, problems = [], {}
        for check in self.checks:
            if check.name in excluded:
                lines.append(f"[+]{check.name} excluded: ok")
                continue
            problem = check.problem()
            self.observe(check.name, self.name, not problem)
            if problem:
                problems[check.name] = problem
            lines.append(f"[-]{check.name} failed: reason withheld" if problem else f"[+]{check.name} ok")
        return lines, problems

    def answer_one(self, check: Check) -> PageReply:
        problem = check.problem()
        return failure(f"internal server error: {problem}", 500) if problem else plain("ok")
