"""TLS to an extender, as its configuration asks for: data before files, and no checks where nobody said whom to trust."""

import os
import ssl
from pathlib import Path

from mooring.apiclient.connection_settings import ConnectionSettings, client_context
from mooring.apiclient.credentials.certificates import KeyPair
from mooring.apiclient.credentials.credentials import CredentialsError
from mooring.framework.config.problems import ConfigError
from mooring.framework.config.types import Extender, ExtenderTLSConfig


def extender_context(extender: Extender) -> ssl.SSLContext:
    """Raises ConfigError(stage="build")."""
    written = extender.tls_config or ExtenderTLSConfig()
    has_authority = bool(written.ca_data or written.ca_file)
    # Parity: enableHTTPS does not turn TLS on (the URL does); it turns the checks off where there is no authority.
    is_insecure = written.insecure or (extender.enable_https and not has_authority)
    if is_insecure and has_authority:
        raise _error("specifying a root certificates file with the insecure flag is not allowed")
    authority = written.ca_data or _content(written.ca_file)
    access = ConnectionSettings(extender.url_prefix, authority, is_insecure, written.server_name)
    try:
        return client_context(access, _pair(written))
    except CredentialsError as fault:
        raise _error(str(fault)) from None


def _pair(written: ExtenderTLSConfig) -> KeyPair | None:
    """Parity: a certificate without its key, or a key alone, is left out."""
    if not (written.cert_data or written.cert_file) or not (written.key_data or written.key_file):
        return None
    return KeyPair(written.cert_data or _content(written.cert_file), written.key_data or _content(written.key_file))


def _content(path: str) -> bytes:
    if not path:
        return b""
    try:
        return Path(path).read_bytes()
    except OSError as fault:
        raise _error(f"open {path}: {os.strerror(fault.errno or 0).lower()}") from None


def _error(text: str) -> ConfigError:
    return ConfigError("build", [f"couldn't build extenders: {text}"])
