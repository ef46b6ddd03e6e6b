"""What a reflector does next after a list or watch has failed: a table in the form of a function."""

from enum import Enum, auto

from mooring.apiclient.unanswered import ConnectionLost, ConnectionRefused, TimedOut, TooLarge
from mooring.model.api_errors import ApiError

MAX_SERVER_ERRORS = 3
"""Errors in a row after which the version that we watch from may be their cause."""


class Restart(Enum):
    RESUME = auto()
    """Watch again from the last version, or list again as before."""
    RELIST = auto()
    """List again, not older than the last version."""
    RELIST_NEWEST = auto()
    """List again, whatever is the newest: the server cannot say how it stands to the last version."""


def restart_after(fault: Exception, is_listing: bool, failures: int) -> Restart:
    """`failures` counts those in a row before this one."""
    if is_expired(fault) or _is_ahead(fault) or isinstance(fault, TooLarge):
        # A list that is too large came from a server's cache, which has no pages; the newest has.
        return Restart.RELIST_NEWEST if is_listing or _is_ahead(fault) else Restart.RELIST
    if isinstance(fault, ConnectionRefused | ConnectionLost | TimedOut) or _has_code(fault, 429):
        return Restart.RESUME
    if _has_code(fault, 500) and failures < MAX_SERVER_ERRORS:
        return Restart.RESUME
    return Restart.RELIST


def rules_out_streaming(refusal: ApiError) -> bool:
    """Whether a server that answers so to a streaming list may still answer a plain one."""
    return refusal.code not in (401, 403, 404, 429) and not is_expired(refusal) and not _is_ahead(refusal)


def is_expired(fault: Exception) -> bool:
    """Whether the server no longer keeps the history that we asked for: nothing is wrong, but we were away for long."""
    return isinstance(fault, ApiError) and (fault.code == 410 or fault.reason in ("Expired", "Gone"))


def _has_code(fault: Exception, code: int) -> bool:
    return isinstance(fault, ApiError) and fault.code == code


def _is_ahead(fault: Exception) -> bool:
    """Whether our version is later than any that the server has: its data were restored from a backup."""
    if not isinstance(fault, ApiError) or fault.details is None:
        return False
    return any(cause.reason == "ResourceVersionTooLarge" for cause in fault.details.causes)
