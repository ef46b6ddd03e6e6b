"""What /flagz shows of the flags that `mooring run` was started with."""

from typing import Any

import pytest

from mooring.cli.commands.run import IGNORED, run
from mooring.cli.options import DEFAULTS, flag_values


def shown(*arguments: str) -> dict[str, str]:
    with run.make_context("run", list(arguments)) as context:
        return flag_values(run.params, context.params)


def test_all_flags_of_kube_scheduler_are_shown_with_their_defaults() -> None:
    own = {
        "dashboard": "false",
        "dry-run": "false",
        "keep-annotations": "[]",
        "plugin": "[]",
        "trace-plugins-over": "1ms",
        "use": "",
        "self-check-repair": "false",
        "record-interval": "15m0s",
        "record-max-age": "168h0m0s",
        "record-max-size": "1073741824",
        "price-unit": "",
    }  # --kept-answers-limit has a default that depends on the nodes
    assert len(DEFAULTS) == 62
    assert shown() == {**DEFAULTS, **own}


def test_every_flag_that_is_accepted_is_one_of_kube_schedulers_or_our_own() -> None:
    accepted = {max(option.opts, key=len).removeprefix("--") for option in run.params}
    assert accepted - DEFAULTS.keys() == {
        *(
            "dashboard",
            "dry-run",
            "keep-annotations",
            "kept-answers-limit",
            "plugin",
            "price-unit",
            "prices",
            "self-check",
            "self-check-repair",
            "trace-plugins-over",
            "use",
        ),
        *("record", "record-interval", "record-max-age", "record-max-size"),
    }
    assert set(IGNORED) <= DEFAULTS.keys()
    assert DEFAULTS.keys() - accepted == {"help", "version"}


@pytest.mark.parametrize(
    ("argument", "flag", "value"),
    [
        ("-v=3", "v", "3"),
        ("--leader-elect=false", "leader-elect", "false"),
        ("--kube-api-qps=12.5", "kube-api-qps", "12.5"),
        ("--kube-api-qps=100", "kube-api-qps", "100"),
        ("--pod-max-in-unschedulable-pods-duration=90s", "pod-max-in-unschedulable-pods-duration", "1m30s"),
        ("--leader-elect-lease-duration=20s", "leader-elect-lease-duration", "20s"),
        (
            "--authorization-always-allow-paths=/healthz,/metrics",
            "authorization-always-allow-paths",
            "[/healthz,/metrics]",
        ),
        ("--requestheader-allowed-names=a,b", "requestheader-allowed-names", "[a,b]"),
        ("--kubeconfig=/etc/k", "kubeconfig", "/etc/k"),
        ("--feature-gates=GenericWorkload=true", "feature-gates", ":GenericWorkload=true"),
        ("--kept-answers-limit=256Mi", "kept-answers-limit", "268435456"),
        ("--self-check=10m", "self-check", "10m0s"),
        ("--master=https://user:secret@host:6443", "master", "https://host:6443"),
    ],
)
def test_flags_that_were_given_are_shown_as_go_writes_them(argument: str, flag: str, value: str) -> None:
    assert shown(argument)[flag] == value


def test_no_flag_is_lost() -> None:
    values: dict[str, Any] = shown("--dry-run", "--plugin=a.py", "--plugin=b.py")
    assert (values["dry-run"], values["plugin"]) == ("true", "[a.py,b.py]")
