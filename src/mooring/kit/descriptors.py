"""How many files and connections this process may have open at a time."""

import sys

UNKNOWN = 1024
"""What is assumed where the system does not say: the usual soft limit of Linux."""
_ENOUGH = 1 << 16
"""More is of no use here, and a hard limit may be infinite, which some systems do not take as a soft one."""


def raise_limit() -> int:
    """Raise the soft limit to the hard one, as Go programs do at their start. Returns the limit that holds from now on."""
    if sys.platform == "win32":
        return UNKNOWN
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
        soft = wanted
    return _ENOUGH if soft == resource.RLIM_INFINITY else soft
