"""Errors of input that cannot be used. They are apart from the code that raises them, so that the command line can refuse
input without importing all of it: `mooring run` reads no manifests (20 ms)."""

from collections.abc import Sequence

from mooring.api.validation.problem import Problem
from mooring.framework.config import ConfigError
from mooring.framework.profile.registry import RegistryError
from mooring.kit.logs import one_line

SHOWN_CHARACTERS = 1000
"""Problems quote the input, and a value may be megabytes long."""


class InputError(ValueError):
    """Input that cannot be used: objects, files, names, arguments. `problems` has all of its problems; the text has one on
    each line. All calls of the Python interface raise this error, or one derived from it, for what they are given."""

    def __init__(self, problems: Sequence[Problem] | str) -> None:
        listed = [Problem("", line) for line in problems.splitlines()] if isinstance(problems, str) else [*problems]
        super().__init__("\n".join(str(problem) for problem in listed))
        self.problems = listed


class NoSuchPod(InputError):
    """Asked about a pod that is not there."""


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text says why."""


class LiveSourceError(InputError):
    """A live cluster that cannot be read. The text is one line for the user."""


class NoKubeconfig(LiveSourceError):
    """No cluster was named, and there is no default one."""


def problem_line(problem: object) -> str:
    """A problem on one line of limited length."""
    text = one_line(" ".join(str(problem).split()))
    return text if len(text) <= SHOWN_CHARACTERS else f"{text[:SHOWN_CHARACTERS]}..."


def problems_of(error: BaseException, source: str) -> list[str] | None:
    """The problems of input that cannot be used, each on one line; None for another error.

    `source` is where the configuration comes from.
    """
    if isinstance(error, ConfigError):
        return [problem_line(f"{source}: {problem}") for problem in error.problems]
    if isinstance(error, InputError):
        return [problem_line(problem) for problem in error.problems]
    return [problem_line(error)] if isinstance(error, RegistryError | ScenarioError) else None
