"""Kubeconfig files: finding, parsing and merging them by kubectl's rules.

Of two entries with the same name, the one of the first file counts, as a whole; so does the first current-context.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec

from mooring.kit.bounded_reading import read_file
from mooring.kit.yaml_reader import YamlFault, keep_last, read_document


class KubeconfigError(Exception):
    """A kubeconfig that cannot be used. The text names file and field, and never shows a value that may be secret."""

    def __init__(self, file: str | Path, field: str, problem: str) -> None:
        super().__init__(": ".join(filter(None, (str(file), field, problem))))
        self.file = file
        self.field = field
        self.problem = problem


class _Written(msgspec.Struct, kw_only=True, rename="kebab"):
    """The base of the structs of a kubeconfig; unknown fields are ignored, as in kubectl."""


class KubeconfigExtension(_Written):
    name: str = ""
    extension: Any = None


class KubeconfigCluster(_Written):
    server: str = ""
    tls_server_name: str = ""
    insecure_skip_tls_verify: bool = False
    certificate_authority: str = ""
    certificate_authority_data: bytes = b""
    proxy_url: str = ""
    disable_compression: bool = False
    extensions: list[KubeconfigExtension] = []


class EnvironmentVariable(_Written):
    name: str = ""
    value: str = ""


class Exec(_Written, rename="camel"):
    command: str = ""
    args: list[str] = []
    env: list[EnvironmentVariable] = []
    api_version: str = ""
    install_hint: str = ""
    provide_cluster_info: bool = False
    interactive_mode: str = ""


class User(_Written):
    """Entry of `users` in a kubeconfig: the credentials of a user, and the user that it impersonates (`as`). A field with the
    suffix `-data` holds the content itself instead of a path."""

    token: str = ""
    token_file: str = msgspec.field(default="", name="tokenFile")
    client_certificate: str = ""
    client_certificate_data: bytes = b""
    client_key: str = ""
    client_key_data: bytes = b""
    username: str = ""
    password: str = ""
    as_user: str = msgspec.field(default="", name="as")
    as_uid: str = ""
    as_groups: list[str] = []
    as_user_extra: dict[str, list[str]] = {}
    exec: Exec | None = None
    auth_provider: dict[str, Any] | None = None


class Context(_Written):
    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Written):
    name: str = ""
    cluster: KubeconfigCluster = msgspec.field(default_factory=KubeconfigCluster)


class _NamedUser(_Written):
    name: str = ""
    user: User = msgspec.field(default_factory=User)


class _NamedContext(_Written):
    name: str = ""
    context: Context = msgspec.field(default_factory=Context)


class _File(_Written):
    kind: str = ""
    api_version: str = msgspec.field(default="", name="apiVersion")
    current_context: str = ""
    clusters: list[_NamedCluster] = []
    users: list[_NamedUser] = []
    contexts: list[_NamedContext] = []


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry(Generic[T]):
    """A value of a kubeconfig with its file and place. Relative paths start at the directory of the file."""

    file: Path
    place: str
    value: T = field(repr=False)

    def error(self, name: str, problem: str) -> KubeconfigError:
        return KubeconfigError(self.file, f"{self.place}.{name}" if name else self.place, problem)

    def path(self, written: str) -> Path:
        return self.file.parent / Path(written)


@dataclass(slots=True)
class Kubeconfig:
    """The merged content of all files."""

    files: tuple[Path, ...]
    current_context: str = ""
    clusters: dict[str, Entry[KubeconfigCluster]] = field(default_factory=dict)
    users: dict[str, Entry[User]] = field(default_factory=dict)
    contexts: dict[str, Entry[Context]] = field(default_factory=dict)


def kubeconfig_paths(explicit: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[Path, ...]:
    """The files to read: the given one, which must exist; otherwise those of $KUBECONFIG; otherwise ~/.kube/config."""
    if explicit is not None:
        if not explicit.is_file():
            raise KubeconfigError(explicit, "", "there is no such file")
        return (explicit,)
    listed = [Path(item) for item in environment.get("KUBECONFIG", "").split(os.pathsep) if item]
    if not listed and (home := environment.get("HOME")):
        listed = [Path(home, ".kube", "config")]
    return tuple(path for path in dict.fromkeys(listed) if path.exists())


def merged(paths: Sequence[Path]) -> Kubeconfig:
    """The files as one kubeconfig, the first taking precedence. Raises KubeconfigError."""
    whole = Kubeconfig(tuple(paths))
    for path in paths:
        file = _parsed(path, _read(path))
        whole.current_context = whole.current_context or file.current_context
        _add(whole.clusters, path, "clusters", [(item.name, item.cluster) for item in file.clusters])
        _add(whole.users, path, "users", [(item.name, item.user) for item in file.users])
        _add(whole.contexts, path, "contexts", [(item.name, item.context) for item in file.contexts])
    return whole


def _add(entries: dict[str, Entry[T]], path: Path, section: str, items: Sequence[tuple[str, T]]) -> None:
    seen: set[str] = set()
    for name, value in items:
        if name in seen:
            raise KubeconfigError(path, section, f"two entries are named {name!r}")
        seen.add(name)
        entries.setdefault(name, Entry(path, f"{section}[{name}].{section[:-1]}", value))


def check_kubeconfig(path: Path) -> bytes:
    """The text of a file, if it is a kubeconfig. Raises KubeconfigError."""
    text = _read(path)
    _parsed(path, text)
    return text


def _parsed(path: Path, text: bytes) -> _File:
    """Parse the text of one kubeconfig file. Raises KubeconfigError, which names the file and the field but never a value,
    because values may be secret."""
    try:
        file = msgspec.convert(_without_nulls(_yaml(path, text) or {}), _File)
    except msgspec.ValidationError as error:
        # Safe to show: msgspec's messages have types and the place, never the value.
        problem, _, place = str(error).partition(" - at ")
        raise KubeconfigError(path, place.strip("`").removeprefix("$").removeprefix("."), problem) from None
    if file.kind not in ("", "Config") or file.api_version not in ("", "v1"):
        raise KubeconfigError(path, "kind", "is not a kubeconfig, which has kind Config and apiVersion v1")
    return file


def _read(path: Path) -> bytes:
    try:
        return read_file(path)
    except OSError as error:
        raise KubeconfigError(path, "", f"cannot be read: {error.strerror}") from None


def _yaml(path: Path, text: bytes) -> Any:
    """The parsed YAML. The parser's messages can quote the file, and so a secret: errors name only the place."""
    try:
        return read_document(text, keep_last)
    except YamlFault as fault:
        raise KubeconfigError(path, "", f"is not valid YAML at line {fault.line}, column {fault.column}") from None


def _without_nulls(value: Any) -> Any:
    """The value without nulls: null means the same as leaving the field out."""
    if isinstance(value, dict):
        return {str(key): _without_nulls(inner) for key, inner in value.items() if inner is not None}
    if isinstance(value, list):
        return [_without_nulls(inner) for inner in value if inner is not None]
    return value
