"""What /flagz shows: all flags of kube-scheduler v1.36 with their values, as Go writes them."""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import click

DEFAULTS: dict[str, str] = {
    **dict.fromkeys(("allow-metric-labels", "disabled-metrics", "emulated-version", "min-compatibility-version"), "[]"),
    **dict.fromkeys(("requestheader-allowed-names", "requestheader-uid-headers"), "[]"),
    **dict.fromkeys(("tls-cipher-suites", "tls-curve-preferences", "tls-sni-cert-key"), "[]"),
    "authorization-always-allow-paths": "[/healthz,/readyz,/livez]",
    "requestheader-extra-headers-prefix": "[x-remote-extra-]",
    "requestheader-group-headers": "[x-remote-group]",
    "requestheader-username-headers": "[x-remote-user]",
    **dict.fromkeys(("allow-metric-labels-manifest", "authentication-kubeconfig", "authorization-kubeconfig"), ""),
    **dict.fromkeys(("cert-dir", "client-ca-file", "config", "feature-gates", "kubeconfig", "master", "vmodule"), ""),
    **dict.fromkeys(("requestheader-client-ca-file", "show-hidden-metrics-for-version", "tls-cert-file"), ""),
    **dict.fromkeys(("tls-min-version", "tls-private-key-file", "write-config-to"), ""),
    **dict.fromkeys(("authentication-skip-lookup", "disable-http2-serving", "help", "version"), "false"),
    **dict.fromkeys(("log-json-split-stream", "log-text-split-stream"), "false"),
    **dict.fromkeys(("permit-address-sharing", "permit-port-sharing"), "false"),
    **dict.fromkeys(("authentication-tolerate-lookup-failure", "contention-profiling", "leader-elect"), "true"),
    "profiling": "true",
    "authentication-token-webhook-cache-ttl": "10s",
    "authorization-webhook-cache-authorized-ttl": "10s",
    "authorization-webhook-cache-unauthorized-ttl": "10s",
    "bind-address": "0.0.0.0",
    "http2-max-streams-per-connection": "0",
    "kube-api-burst": "100",
    "kube-api-content-type": "application/vnd.kubernetes.protobuf",
    "kube-api-qps": "50",
    "leader-elect-lease-duration": "15s",
    "leader-elect-renew-deadline": "10s",
    "leader-elect-resource-lock": "leases",
    "leader-elect-resource-name": "kube-scheduler",
    "leader-elect-resource-namespace": "kube-system",
    "leader-elect-retry-period": "2s",
    "log-flush-frequency": "5s",
    "log-json-info-buffer-size": "0",
    "log-text-info-buffer-size": "0",
    "logging-format": "text",
    "pod-max-in-unschedulable-pods-duration": "5m0s",
    "secure-port": "10259",
    "v": "0",
}
"""Of kube-scheduler v1.36.4, as its own /flagz shows them. Lists are in brackets."""


def flag_values(options: Iterable[click.Parameter], values: Mapping[str, Any]) -> dict[str, str]:
    """All flags with their values as text. Flags that were not given have their default."""
    shown = dict(DEFAULTS)
    for option in options:
        name, value = _flag_of(option), values.get(option.name or "")
        if value is not None and name:
            shown[name] = _shown(value, is_list=DEFAULTS.get(name, "").startswith("["))
    # Parity: a gate without a component is shown with an empty one.
    gates = filter(None, shown["feature-gates"].split(","))
    shown["feature-gates"] = ",".join(gate if ":" in gate else f":{gate.strip()}" for gate in gates)
    shown["master"] = _without_credentials(shown["master"])
    return shown


def _flag_of(option: click.Parameter) -> str:
    """`--v` of `-v, --v`."""
    return max(option.opts, key=len).removeprefix("--")


def _shown(value: Any, is_list: bool) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, tuple | list):
        return f"[{','.join(map(str, value))}]"
    return f"[{value}]" if is_list else str(value)


def _without_credentials(url: str) -> str:
    """A URL may have a password in it; /flagz shows none."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return "?"
    host = parts.netloc.rpartition("@")[2]
    return parts._replace(netloc=host).geturl() if host != parts.netloc else url
