"""Errors of input that cannot be used. They are apart from the code that raises them, so that the command line can refuse
input without importing all of it: `mooring run` reads no manifests (20 ms)."""

from collections.abc import Sequence

from mooring.model.validation.problem import Problem


class UnusableInput(ValueError):
    """Input that cannot be used. `problems` has all of its problems; the text has one on each line."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = list(problems)


class InputError(UnusableInput):
    """Objects that cannot be used."""


class NoSuchPod(ValueError):
    """Asked about a pod that is not there."""


class ScenarioError(ValueError):
    """A scenario that cannot be used; the text says why."""


class LiveSourceError(Exception):
    """A live cluster that cannot be read. The text is one line for the user."""


class NoKubeconfig(LiveSourceError):
    """No cluster was named, and there is no default one."""
