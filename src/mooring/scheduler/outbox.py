"""Intents until a driver takes them, and what plugins asked for meanwhile."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mooring.framework.contract.intents import Intent, Write, WriteFault
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

OnAnswer = Callable[[KubeObject | WriteFault | None], None]
"""Called with the answer to a write that no PreBind plugin waits for."""


class Outbox:
    """Intents in order. Writes and calls have a token, by which their answer finds the code that waits for it.

    Hot: a class with slots, because `intents` is set twice a pod, and structs take three times as long to set a field.
    """

    __slots__ = ("activations", "intents", "last_token", "on_answer")

    def __init__(self) -> None:
        self.intents: list[Intent] = []
        self.activations: list[Pod] = []
        """Pods that plugins want to be tried again. They are activated after the attempt or input, not in the middle of
        it."""
        self.on_answer: dict[int, OnAnswer] = {}
        """Token of a write -> what is called with its answer."""
        self.last_token = 0
        """The last one that was given out."""

    def append(self, intent: Intent) -> None:
        self.intents.append(intent)

    def next_token(self) -> int:
        """A number that was not used before; 0 is never one, so it can mean none."""
        self.last_token += 1
        return self.last_token

    def want(self, intent: Intent) -> None:
        """A plugin wants something done. It gets the answer only if it named a callback (`Write.late`)."""
        if isinstance(intent, Write) and intent.late is not None:
            token = self.next_token()
            self.on_answer[token] = intent.late
            intent = replace(intent, token=token)
        self.intents.append(intent)

    def activate(self, pods: Sequence[Pod]) -> None:
        """A plugin wants these pods to be tried again."""
        self.activations += pods

    def take_activations(self) -> list[Pod]:
        pods, self.activations = self.activations, []
        return pods
