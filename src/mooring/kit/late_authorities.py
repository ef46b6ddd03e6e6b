"""Imports aiohttp without the certificate authorities of the system. What a running scheduler imports takes aiohttp
from here.

Hot: aiohttp makes two TLS contexts when it is imported, and OpenSSL parses all authorities of the system for each: 470
million instructions, a fifth of the start of `mooring run`. Mooring uses neither: each of its connections has a context that
trusts what the kubeconfig says. A plugin may use them, so they read the authorities when they make their first connection.
"""

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from types import ModuleType
from typing import Any

_CONNECT = ("wrap_bio", "wrap_socket")
"""The methods of a context that make a connection: asyncio and uvloop call the first, code that blocks the second."""


def _put_off(context: ssl.SSLContext) -> None:
    """Instead of `set_default_verify_paths`: the context calls that before its first connection."""
    for name in _CONNECT:
        setattr(context, name, partial(_connect, context, name))


def _connect(context: ssl.SSLContext, name: str, *args: Any, **options: Any) -> Any:
    # First the authorities: another thread that connects meanwhile must have them too. To read them twice does no harm.
    context.set_default_verify_paths()
    for each in _CONNECT:
        with suppress(AttributeError):  # the other thread was first
            delattr(context, each)
    connect: Callable[..., Any] = getattr(context, name)
    return connect(*args, **options)


ssl.SSLContext.set_default_verify_paths = _put_off  # type: ignore[method-assign, assignment]
try:
    import aiohttp as aiohttp
finally:
    del ssl.SSLContext.set_default_verify_paths  # the inherited method is in effect again


def web() -> ModuleType:
    """The server of aiohttp, which takes 20 ms more to import."""
    from aiohttp import web

    return web
