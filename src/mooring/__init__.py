"""Mooring: a Kubernetes scheduler in Python that decides as kube-scheduler does, and can explain and simulate it.

In a notebook:

    import mooring
    cluster = mooring.load("dump.json")                # a file, a folder, several of them, or a list of objects
    cluster.explain("shop/cart-0")                    # why is it pending, and what would place it?
    report = mooring.simulate("cluster.yaml")         # where do the pending pods go?
    {result.pod.name: result.node for result in report.placed}
    day = mooring.simulate("cluster.yaml", arrivals="day.yaml", until="24h")
    {waits.priority: waits.quantile_s(0.99) for waits in day.waits}
    mooring.study("study.yaml", results="runs.csv").to_frame()
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mooring.answers.notebook import ArrivalsError, InputError, QuestionedCluster, load, simulate, study

__all__ = ["ArrivalsError", "InputError", "QuestionedCluster", "__version__", "load", "simulate", "study"]


def __getattr__(name: str) -> Any:
    """Load the functions for notebooks when they are first used: the command line starts faster without them."""
    if name == "__version__":
        from mooring.kit.version import VERSION

        return VERSION
    if name in __all__:
        from mooring.answers import notebook

        return getattr(notebook, name)
    raise AttributeError(f"module 'mooring' has no attribute {name!r}")


def __dir__() -> list[str]:
    """The public names, also those that are not loaded yet: for `dir(mooring)` and completion in a notebook."""
    return sorted({*__all__, *globals()} - {"Any", "TYPE_CHECKING"})
