"""Which of two resource versions is the later one."""


def is_later(version: str | None, other: str | None) -> bool:
    """Whether `version` comes after `other`.

    Versions are numbers that grow (promised since Kubernetes 1.35, and true before). A server that leaves them out or
    writes something else is taken at its word: what it says later is later, unless it says the very same.
    """
    if version == other:
        return not version
    try:
        return int(version or "") > int(other or "")
    except ValueError:
        return True
