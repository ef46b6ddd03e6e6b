"""The version of Mooring that runs are made with."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version


@cache
def mooring_version() -> str:
    try:
        return version("mooring")
    except PackageNotFoundError:  # a source tree that is not installed
        return "unknown"
