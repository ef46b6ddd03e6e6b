"""Calls by which long-running work tells others about itself, and objects that pass such calls on to another one."""

from collections.abc import Callable
from inspect import isfunction

Tell = Callable[[str], None]
"""Called with a message for the operator."""
ReportFault = Callable[[str, Exception | None], None]
"""Called with a message, and with the fault behind it if there is one."""
Progress = Callable[[int, int], None]
"""Called now and then with how much of the work is done, and of how much: attempts, arrivals or percents."""


def forward(outer: object, inner: object, seam: type) -> None:
    """Let `outer` have the methods of `inner`, where its class has none of its own. `seam` is the class that both extend.

    Hot: the methods are looked up once, so that a call through any number of layers is one call.
    """
    for name, method in vars(seam).items():
        if isfunction(method) and not name.startswith("_") and getattr(type(outer), name) is method:
            setattr(outer, name, getattr(inner, name))
