"""Kubeconfig files for the users of our own API server."""

import base64
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from mooring.apiclient.credentials.certificates import KeyPair
from mooring.apiclient.credentials.private_files import write_private


@dataclass(frozen=True, slots=True)
class Login:
    """One server and one user. `secret` is a token or a client certificate; with neither the user is anonymous."""

    server: str
    authority_pem: bytes = field(default=b"", repr=False)
    secret: str | KeyPair | None = field(default=None, repr=False)
    context: str = "mooring"
    namespace: str = ""


def write_kubeconfig(path: Path, login: Login) -> None:
    """A file with one context, which is the current one; mode 0600, put in place as a whole."""
    write_private(path, kubeconfig_text(login).encode())


def kubeconfig_text(login: Login) -> str:
    entries = {section: [entry] for section, entry in kubeconfig_entries(login).items()}
    whole = {"apiVersion": "v1", "kind": "Config", "current-context": login.context, **entries}
    return yaml.safe_dump(whole, sort_keys=False, width=1 << 20)


def kubeconfig_entries(login: Login) -> dict[str, dict[str, Any]]:
    """The one entry of each section."""
    name = login.context
    cluster: dict[str, Any] = {"server": login.server}
    if login.authority_pem:
        cluster["certificate-authority-data"] = _base64(login.authority_pem)
    context: dict[str, Any] = {"cluster": name, "user": name}
    if login.namespace:
        context["namespace"] = login.namespace
    return {
        "clusters": {"name": name, "cluster": cluster},
        "users": {"name": name, "user": _user(login.secret)},
        "contexts": {"name": name, "context": context},
    }


def _user(secret: str | KeyPair | None) -> dict[str, str]:
    if secret is None:
        return {}
    if isinstance(secret, str):
        return {"token": secret}
    return {
        "client-certificate-data": _base64(secret.certificate_pem),
        "client-key-data": _base64(secret.key_pem),
    }


def _base64(pem: bytes) -> str:
    return base64.b64encode(pem).decode()
