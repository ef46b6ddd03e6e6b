"""URLs as logs, events, pages and files may show them: passwords are written before the host, and tokens in the query."""


def shown_url(url: str) -> str:
    """The URL without user info, query and fragment.

    The text is cut, not parsed: a URL that is wrong must not show its password either.

    | url                          | shown              |
    | http://u:p@host:1/path?k=v#x | http://host:1/path |
    | u:p@host                     | host               |
    """
    head = url.partition("#")[0].partition("?")[0]
    scheme, separator, rest = head.partition("://")
    if not separator:
        return head.rpartition("@")[2]
    return f"{scheme.rpartition('@')[2]}{separator}{rest.rpartition('@')[2]}"
