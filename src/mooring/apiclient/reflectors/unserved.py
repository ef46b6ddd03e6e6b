"""Resources that a server refuses to show: what to tell an operator, and what to do about it."""

from mooring.apiclient.reflectors.watched import Watched
from mooring.model.api_errors import ApiError


def is_definite(fault: Exception) -> bool:
    """Whether asking again soon is no use: the server does not serve this, or does not let us see it."""
    return isinstance(fault, ApiError) and fault.code in (403, 404)


def advice(watched: Watched, fault: ApiError) -> str:
    """One paragraph: what is refused, what follows from it, and how to change it."""
    remedy = _grant(watched) if fault.code == 403 else _serving(watched)
    return f"Failed to watch {watched.name}: {fault.message} ({fault.code}). {_consequence(watched)} {remedy}"


def _consequence(watched: Watched) -> str:
    if watched.is_required:
        return "The scheduler cannot schedule without it."
    return "Until that changes, the scheduler continues as if there were none, and tries again every minute."


def _grant(watched: Watched) -> str:
    rule = f'{{apiGroups: ["{watched.group}"], resources: ["{watched.plural}"], verbs: ["get", "list", "watch"]}}'
    return f"Add this rule to the ClusterRole of the scheduler: {rule}"


def _serving(watched: Watched) -> str:
    if not watched.group:
        return "Check that the server's address is that of a Kubernetes API server."
    return (
        f"The server does not serve {watched.api_version}: "
        f"kubectl api-resources --api-group={watched.group} shows what it does serve."
    )
