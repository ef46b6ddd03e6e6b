"""`mooring run`: the scheduler on any cluster, with kube-scheduler's flags and files.

Flags and their forms (`--leader-elect=false`, `-v=2`) are kube-scheduler's, so that its manifests work unchanged.
"""

import logging
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import msgspec
import yaml

from mooring.apiclient.connection_settings import ConnectionSettings
from mooring.apiclient.credentials import CredentialsError
from mooring.apiclient.kubeconfig.files import KubeconfigError
from mooring.apiclient.kubeconfig.loading import find_connection, in_cluster, names_cluster
from mooring.app.config_reload import ConfigSource
from mooring.app.run import Running, RunSettings, ServingSettings
from mooring.cli.options import (
    chosen_gates,
    config_file,
    duration,
    feature_gates,
    file_option,
    flag_values,
    idle_plugins,
    kept_answers_limit,
    path_option,
    plugin_files,
    prices_of_nodes,
    real_use,
    registry_with,
)
from mooring.cli.recording_options import (
    RecordingFlags,
    SelfCheckFlags,
    recording_options,
    self_check_flags,
    trace_plugins_over,
    tracing_of,
    undeclared_annotations,
)
from mooring.cli.refusal import refusals, refuse, writing
from mooring.cli.terminal import BAD_INPUT, tell
from mooring.drivers.live_service import ClientLimits
from mooring.framework import config as configuration
from mooring.framework.config import KubeSchedulerConfiguration
from mooring.framework.config.decoding import parse
from mooring.framework.config.settings import as_object
from mooring.inputs.configuration_files import configuration_text
from mooring.kit import process
from mooring.kit.logs import LogFormat, check_format, start_logs
from mooring.kit.private_files import write_private
from mooring.kit.process import raise_descriptor_limit
from mooring.serve.lease.leader_election import ElectionError
from mooring.serve.pages.access import ALWAYS_ALLOWED, AccessSettings
from mooring.serve.pages.server import ListenError
from mooring.serve.pages.server_tls import AuthorityError, CertificateError

EPILOG = """
\b
Examples:
  mooring run --kubeconfig ~/.kube/config                           instead of kube-scheduler
  mooring run --config /etc/kubernetes/scheduler.yaml -v=2          with its configuration file
  mooring run --config second.yaml --leader-elect-resource-name=mine    beside it, for pods of another schedulerName
  mooring run --record /var/lib/mooring                             and record it, for `mooring replay`
  mooring run --dry-run --secure-port=0                             decide and report, but write nothing
  mooring run --self-check=10m                                      compare its state with a fresh scheduler's
  mooring run --write-config-to=effective.yaml                      the configuration with all defaults

\b
A changed --config file, or SIGHUP, changes the profiles without a restart; a faulty file changes nothing: docs/run.md.

\b
The section `tracing` of the configuration, or the variables OTEL_*, turn traces of attempts on: docs/tracing.md.

\b
Boolean flags of kube-scheduler take a value: --leader-elect=false. --dry-run, --dashboard and --self-check-repair take
none. Mooring accepts and ignores the flags of kube-scheduler that have no effect here: --vmodule, --tls-cipher-suites ...

\b
Exit status:
  0  stopped by SIGTERM or SIGINT, or by SIGHUP without --config
  1  the lease is lost, or cannot be used; the port is in use; a certificate cannot be used
  2  the input is invalid
"""

_NO_MEANING = """
tls-min-version tls-cipher-suites tls-curve-preferences tls-sni-cert-key disable-http2-serving
http2-max-streams-per-connection permit-address-sharing permit-port-sharing emulated-version min-compatibility-version
allow-metric-labels allow-metric-labels-manifest disabled-metrics show-hidden-metrics-for-version vmodule
log-flush-frequency log-json-info-buffer-size log-json-split-stream log-text-info-buffer-size log-text-split-stream
kube-api-content-type profiling contention-profiling requestheader-allowed-names requestheader-client-ca-file
requestheader-extra-headers-prefix requestheader-group-headers requestheader-uid-headers
requestheader-username-headers
"""
IGNORED = _NO_MEANING.split()
"""Flags of kube-scheduler that existing manifests may have and that mean nothing here: accepted, hidden, ignored."""

_ELECTION = ("lease_duration", "renew_deadline", "retry_period", "resource_lock", "resource_name", "resource_namespace")


class _Verbosity(click.ParamType[int]):
    """`-v=2` as in Go, and also `-v 2` and `-v2`."""

    name = "LEVEL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        text = str(value).removeprefix("=")
        if not text.isdecimal():
            self.fail(f"{text!r} is not a whole number", param, ctx)
        return int(text)


def _boolean(name: str, **settings: Any) -> Callable[[Any], Any]:
    """A boolean flag as in Go: `--x`, `--x=true`, `--x=false`."""
    return click.option(name, type=click.BOOL, is_flag=False, flag_value=True, **settings)


def _accept_ignored(command: Any) -> Any:
    """Add a hidden option for each flag in IGNORED."""
    for name in IGNORED:
        option = click.option(
            f"--{name}", f"ignored_{name.replace('-', '_')}", is_flag=False, flag_value="true", hidden=True
        )
        command = option(command)
    return command


@click.command(
    epilog=EPILOG,
    short_help="Run the scheduler on a cluster, instead of kube-scheduler.",
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)
@config_file
@file_option(
    "--kubeconfig",
    "How to reach the cluster, unless the configuration names a kubeconfig.  "
    "[default: $KUBECONFIG, ~/.kube/config, or in a pod its service account]",
)
@click.option("--master", metavar="URL", help="The API server; overrides that of the kubeconfig.")
@file_option("--write-config-to", "Write the configuration with all defaults, and exit.")
@plugin_files
@click.option(
    "--dry-run",
    is_flag=True,
    help="Log what the scheduler would do and where another scheduler differs; write nothing and take no lease.",
)
@kept_answers_limit
@recording_options
@trace_plugins_over
@self_check_flags
@_boolean(
    "--leader-elect",
    help="Schedule only while holding the lease. A --leader-elect flag overrides --config.  [default: true]",
)
@duration(
    "--leader-elect-lease-duration",
    "How long others wait for a leader that does not renew.  [default: 15s]",
    argument="lease_duration",
)
@duration(
    "--leader-elect-renew-deadline",
    "A leader that cannot renew for so long stops.  [default: 10s]",
    argument="renew_deadline",
)
@duration(
    "--leader-elect-retry-period", "How often to try to acquire or renew.  [default: 2s]", argument="retry_period"
)
@click.option("--leader-elect-resource-lock", "resource_lock", help="The kind of the lock: leases.  [default: leases]")
@click.option("--leader-elect-resource-name", "resource_name", help="The name of the Lease.  [default: kube-scheduler]")
@click.option("--leader-elect-resource-namespace", "resource_namespace", help="Its namespace.  [default: kube-system]")
@click.option(
    "--bind-address", default="0.0.0.0", show_default=True, help="The address that serves health and metrics."
)
@click.option(
    "--secure-port",
    type=int,
    default=10259,
    show_default=True,
    help="The port that serves health and metrics; 0 disables it.",
)
@click.option(
    "--dashboard",
    is_flag=True,
    help="Serve a dashboard under /dashboard/ of that port, read-only, for callers that may get /dashboard/api/*.",
)
@real_use
@prices_of_nodes
@path_option("--tls-cert-file", "The certificate of that port, with --tls-private-key-file.")
@path_option("--tls-private-key-file", "The key of --tls-cert-file.")
@path_option("--cert-dir", "Where to keep a self-signed certificate, without --tls-cert-file.  [default: in memory]")
@file_option(
    "--authentication-kubeconfig",
    "The cluster that reviews the tokens of callers.  [default: in a pod, its service account]",
)
@file_option(
    "--authorization-kubeconfig",
    "The cluster that reviews the access of callers. Without one, only callers on this machine have access.  "
    "[default: in a pod, its service account]",
)
@_boolean(
    "--authentication-skip-lookup",
    default=False,
    show_default=True,
    help="Do not read the authority for client certificates from the cluster.",
)
@_boolean(
    "--authentication-tolerate-lookup-failure",
    default=True,
    show_default=True,
    help="Start also if that authority cannot be read.",
)
@duration("--authentication-token-webhook-cache-ttl", "How long to keep the answer for a token.", "10s")
@click.option(
    "--authorization-always-allow-paths",
    default=",".join(ALWAYS_ALLOWED),
    show_default=True,
    help="Paths that need no access, with commas; a * may end one.",
)
@duration("--authorization-webhook-cache-authorized-ttl", "How long access that is granted is kept.", "10s")
@duration("--authorization-webhook-cache-unauthorized-ttl", "How long access that is denied is kept.", "10s")
@path_option("--client-ca-file", "The authority for client certificates of callers.")
@feature_gates
@click.option("--kube-api-qps", type=float, help="Requests per second, without --config.  [default: no limit]")
@click.option(
    "--kube-api-burst", type=int, help="How many requests may come at once, where --kube-api-qps limits them."
)
@duration(
    "--pod-max-in-unschedulable-pods-duration",
    "After this time, an unschedulable pod gets another attempt without an event.",
    "5m0s",
    "max_parked",
)
@click.option(
    "-v", "--v", "verbosity", type=_Verbosity(), default=0, help="How much to log: 0 the least, 10 all.  [default: 0]"
)
@click.option("--logging-format", default="text", show_default=True, help="text or json.")
@_accept_ignored
def run(recording: RecordingFlags, self_check: SelfCheckFlags, **flags: Any) -> None:
    """Schedule the pods of a cluster: the same configuration, writes, metrics and lease as kube-scheduler."""
    _check_serving(flags)
    try:
        log_format: LogFormat = check_format(flags["logging_format"])
    except ValueError as fault:
        refuse(fault)
    gates = chosen_gates(flags["feature_gates"])
    checks = self_check.settings()
    if checks is not None and flags["dry_run"]:
        refuse("--self-check cannot be used with --dry-run: a dry run assumes pods on nodes and never binds them")
    with refusals(flags["config"] or "configuration", flags["plugins"]):
        config, limits = _configuration(flags, gates)
        registry = registry_with(flags["plugins"])
        kubeconfig = config.client_connection.kubeconfig or flags["kubeconfig"]
        settings = RunSettings(
            config,
            _access(kubeconfig, flags["master"]),
            _access(kubeconfig, flags["master"]),
            registry,
            limits,
            _serving(flags),
            flags["max_parked"].seconds,
            flag_values(run.params, click.get_current_context().params),
            flags["dry_run"],
            gates,
            flags["kept_answers_limit"],
            recording=recording.settings(registry),
            self_check=checks,
            has_dashboard=flags["dashboard"],
            use=flags["use"],
            prices=flags["prices"],
            source=_source(flags, gates),
        )
        raise_descriptor_limit()
        idle = idle_plugins(config, registry)
        logs = start_logs(logging.getLogger("mooring"), log_format, flags["verbosity"])
        for name, file in idle.items():
            logs.log.warning("Plugin is loaded but no profile of the configuration enables it", plugin=name, file=file)
        for text in undeclared_annotations(settings.recording, registry):
            logs.log.warning(text)
        tracing = tracing_of(config, flags["trace_plugins_over"], logs.log.warning)
        with closing(tracing):
            settings = msgspec.structs.replace(settings, tracing=tracing)
            sys.exit(process.run_event_loop(_run(settings, logs, flags["write_config_to"])))


async def _run(settings: RunSettings, logs: Any, write_config_to: str | None) -> int:
    """The exit status. `Running` must be made inside the event loop."""
    try:
        running = Running(settings, logs)
        if write_config_to is not None:
            with writing(write_config_to):
                write_private(Path(write_config_to), yaml.safe_dump(as_object(settings.config)).encode())
            logs.log.info("Wrote configuration", file=write_config_to)
            return 0
        return await running.run()
    except (ListenError, CertificateError, AuthorityError, ElectionError) as fault:
        logs.log.error("command failed", fault)
        return 1
    except CredentialsError as fault:
        logs.log.error("command failed", fault)
        return BAD_INPUT


def _check_serving(flags: dict[str, Any]) -> None:
    if not 0 <= flags["secure_port"] <= 65535:
        refuse(
            f"--secure-port {flags['secure_port']} must be between 0 and 65535, inclusive. 0 for turning off secure port"
        )

    if flags["dashboard"] and not flags["secure_port"]:
        refuse("--dashboard needs a port: --secure-port 0 serves no pages")
    if flags["use"] and not flags["dashboard"]:
        refuse("--use needs --dashboard: only its map shows what nodes really use")
    if flags["prices"] and not flags["dashboard"]:
        refuse("--prices and --price-unit need --dashboard: only its pages show money")


def _configuration(flags: dict[str, Any], gates: dict[str, bool]) -> tuple[KubeSchedulerConfiguration, ClientLimits]:
    """The configuration with the flags that override it, and the client limits.

    Limits apply only if the file or a flag has them: upstream's default of 50 requests a second would limit binding.
    """
    path = flags["config"]
    written: Any = {}
    if path is None:
        config = configuration.default(feature_gates=gates)
        qps, burst = flags["kube_api_qps"], flags["kube_api_burst"]
    else:
        text = configuration_text(path)
        config = configuration.load(text, path, feature_gates=gates)
        written = parse(text.decode("utf-8-sig")).value or {}
        connection = written.get("clientConnection") or {}
        qps, burst = connection.get("qps"), connection.get("burst")
    if flags["leader_elect"] is not None:
        config.leader_election.leader_elect = flags["leader_elect"]
    for name in _ELECTION:
        if flags[name] is not None:
            setattr(config.leader_election, name, flags[name])
    connected = config.client_connection
    return config, ClientLimits(qps or -1.0, burst or connected.burst, content_type=connected.content_type)


def _source(flags: dict[str, Any], gates: dict[str, bool]) -> ConfigSource | None:
    """The file of --config, to be read again when it changes; the flags still override what it says."""
    if flags["config"] is None:
        return None
    return ConfigSource(flags["config"], lambda: _configuration(flags, gates)[0])


def _access(kubeconfig: str | None, master: str | None) -> ConnectionSettings:
    """The connection to the API server. `master` overrides the server of the kubeconfig, or replaces the kubeconfig."""
    try:
        access = find_connection(Path(kubeconfig) if kubeconfig else None)
    except KubeconfigError as fault:
        if master is None:
            refuse(fault)
        access = ConnectionSettings(master.rstrip("/"))
    return replace(access, server=master.rstrip("/")) if master else access


def delegate(kubeconfig: str | None, flag: str) -> ConnectionSettings | None:
    """The connection for reviews of callers. Parity: without a kubeconfig, a pod uses its service account; outside of a
    cluster there are no reviews."""
    if kubeconfig:
        return _access(kubeconfig, None)
    if not names_cluster():
        return None
    try:
        return in_cluster()
    except CredentialsError as fault:
        tell(f"Warning: {flag} is not set, and the service account of this pod cannot be used: {fault}", err=True)
        return None


def _serving(flags: dict[str, Any]) -> ServingSettings:
    """The settings of the pages that the flags ask for."""
    try:
        access = AccessSettings(
            [path for path in flags["authorization_always_allow_paths"].split(",") if path],
            flags["authentication_token_webhook_cache_ttl"].seconds,
            flags["authorization_webhook_cache_authorized_ttl"].seconds,
            flags["authorization_webhook_cache_unauthorized_ttl"].seconds,
        )
    except ValueError as fault:
        refuse(fault)
    return ServingSettings(
        flags["bind_address"],
        flags["secure_port"],
        flags["tls_cert_file"],
        flags["tls_private_key_file"],
        flags["cert_dir"],
        flags["client_ca_file"],
        delegate(flags["authentication_kubeconfig"], "--authentication-kubeconfig"),
        delegate(flags["authorization_kubeconfig"], "--authorization-kubeconfig"),
        not flags["authentication_skip_lookup"],
        not flags["authentication_tolerate_lookup_failure"],
        access,
    )
