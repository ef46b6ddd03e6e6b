"""Mooring: a Kubernetes scheduler in Python that decides as kube-scheduler does, and can explain and simulate it.

In a notebook:

    import mooring
    report = mooring.simulate("cluster.yaml")          # a file, a folder, several of them, or a list of objects
    {result.pod.name: result.node for result in report.placed}
    day = mooring.simulate("cluster.yaml", arrivals="day.yaml", until="24h")
    {waits.priority: waits.quantile_s(0.99) for waits in day.waits}
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.answers.notebook import ArrivalsError, InputError, simulate

__all__ = ["ArrivalsError", "InputError", "simulate"]


def __getattr__(name: str) -> Any:
    """What a notebook needs is loaded when it is first asked for: the command line starts faster without it."""
    if name in __all__:
        from mooring.answers import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'mooring' has no attribute {name!r}")
