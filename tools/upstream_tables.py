"""Fills the tables that follow upstream's release from upstream's own lists: feature gates and metrics.

python tools/upstream_tables.py gates 1.36 FILE.go... --names FILE.go...
    writes the rows of framework/config/gates.txt from files of a checkout of Kubernetes: those that define the gates of
    kube-scheduler (GATE_FILES), and those that only name gates which the others define (NAME_FILES)
python tools/upstream_tables.py metrics documentation-list.yaml
    updates kinds, stability, labels and buckets in framework/profile/metrics.txt from upstream's list of metrics, which is
    below test/instrumentation/documentation in v1.36, and below hack/tools/instrumentation/documentation in v1.37

Both keep the columns that are Mooring's own (which gates count here, help texts), and print what is new, gone or changed:
code, tests, tools/gate_notes.py and docs have to follow. A new gate counts nowhere, and a new metric gets no row, until
someone writes what Mooring does about it. The list of metrics is made by hand upstream, and lags behind: that of v1.36.0
calls four metrics ALPHA that its code has as BETA. Compare changes of stability with pkg/scheduler/metrics/metrics.go.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from mooring.framework.config import feature_gates
from mooring.framework.profile import metric_catalogue
from mooring.kit.metrics import Description

GATE_FILES = (
    "pkg/features/kube_features.go",
    "staging/src/k8s.io/client-go/features/known_features.go",
    "staging/src/k8s.io/component-base/logs/api/v1/kube_features.go",
    "staging/src/k8s.io/component-base/metrics/features/kube_features.go",
    "staging/src/k8s.io/component-base/zpages/features/kube_features.go",
)
"""Where v1.36 and v1.37 define the gates that kube-scheduler registers."""

NAME_FILES = (
    "staging/src/k8s.io/apiextensions-apiserver/pkg/features/kube_features.go",
    "staging/src/k8s.io/apiserver/pkg/features/kube_features.go",
    "staging/src/k8s.io/controller-manager/pkg/features/kube_features.go",
)
"""Libraries whose gates the first of GATE_FILES defines again, as far as the scheduler has them."""

_COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\])*")', re.DOTALL)
_NAME = re.compile(r'\b(\w+)(?:\s+(?:\w+\.)?Feature)?\s*=\s*(?:(?:\w+\.)?Feature\()?"(\w+)"')
"""`X Feature = "Y"`, `X = "Y"` and `X = Feature("Y")`: upstream writes all three."""
_SPECS = re.compile(r"map\[(?:\w+\.)?Feature\](?:\w+\.)?VersionedSpecs\s*\{")
_NEEDS = re.compile(r"map\[(?:\w+\.)?Feature\]\[\](?:\w+\.)?Feature\s*\{")
_ENTRY = re.compile(r"(?:\w+\.)?(\w+):\s*\{")
_NEEDED = re.compile(r"(\w+)\)?\s*(?:,|$)")
_VERSION = re.compile(r'\bVersion:\s*version\.MustParse\("(\d+)\.(\d+)"\)')
_COMPATIBLE = re.compile(r'\bMinCompatibilityVersion:\s*version\.MustParse\("(\d+)\.(\d+)"\)')
_STAGE = re.compile(r"PreRelease:\s*(?:\w+\.)?(\w+)")


class Spec(NamedTuple):
    """What a gate is from a release on."""

    since: tuple[int, int]
    stage: str
    default: bool
    is_locked: bool
    compatible: tuple[int, int] = (0, 0)
    """It holds only where releases before this one need not be understood. By default the one before is understood."""


# ---- Feature gates


def gates_of(
    texts: Iterable[str], release: tuple[int, int], naming: Iterable[str] = ()
) -> dict[str, tuple[Spec, tuple[str, ...]]]:
    """By name of the gate: its spec in a release, and the gates that it needs. The texts are Go files; those in `naming`
    have only names of gates that the others define."""
    bare = [*map(_without_comments, texts)]
    names = dict(pair for text in (*bare, *map(_without_comments, naming)) for pair in _NAME.findall(text))
    specs: dict[str, Spec] = {}
    needs: dict[str, tuple[str, ...]] = {}
    for text in bare:
        for constant, body in _entries(text, _SPECS):
            held = (each for each in _specs(body) if each.since <= release and each.compatible < release)
            spec = max(held, default=None)
            if spec is not None and specs.setdefault(names[constant], spec) != spec:
                raise ValueError(f"{names[constant]}: two files define it as {spec} and {specs[names[constant]]}")
        for constant, body in _entries(text, _NEEDS):
            needs[names[constant]] = tuple(sorted({names[other] for other in _NEEDED.findall(body)}))
    return {name: (specs[name], needs.get(name, ())) for name in sorted(specs)}


def _without_comments(text: str) -> str:
    return _COMMENT.sub(lambda found: found[1] or "", text)


def _entries(text: str, opening: re.Pattern[str]) -> Iterator[tuple[str, str]]:
    """Constant and body of each entry in the maps that begin so."""
    for found in opening.finditer(text):
        body = _braced(text, found.end())
        place = 0
        while (entry := _ENTRY.search(body, place)) is not None:
            inner = _braced(body, entry.end())
            yield entry[1], inner
            place = entry.end() + len(inner) + 1


def _braced(text: str, start: int) -> str:
    """The text from after an opening brace to before the one that closes it."""
    depth = 1
    for brace in re.finditer(r"[{}]", text[start:]):
        depth += 1 if brace[0] == "{" else -1
        if not depth:
            return text[start : start + brace.start()]
    raise ValueError("a brace is not closed")


def _specs(body: str) -> Iterator[Spec]:
    for written in re.findall(r"\{([^{}]*)\}", body):
        version, stage = _VERSION.search(written), _STAGE.search(written)
        if version is None or stage is None:
            raise ValueError(f"not a spec of a gate: {written}")
        is_on, is_locked = (
            re.search(rf"\b{field}:\s*true", written) is not None for field in ("Default", "LockToDefault")
        )
        compatible = _COMPATIBLE.search(written)
        since = int(version[1]), int(version[2])
        least = (int(compatible[1]), int(compatible[2])) if compatible is not None else (0, 0)
        yield Spec(since, stage[1].upper(), is_on, is_locked, least)


def gate_rows(gates: Mapping[str, tuple[Spec, tuple[str, ...]]], uses: Mapping[str, str]) -> Iterator[str]:
    """The rows of gates.txt; `uses` says by name which gates count here."""
    for name, (spec, needs) in gates.items():
        since = ".".join(map(str, spec.since))
        locked = "locked" if spec.is_locked else "-"
        yield " ".join((name, spec.stage, since, str(spec.default).lower(), locked, uses.get(name, "-"), *needs))


def write_gates(release: str, paths: Iterable[str], naming: Iterable[str]) -> None:
    """Write gates.txt anew for a release (`1.36`)."""
    major, minor = release.split(".")
    texts, names = ([Path(path).read_text() for path in each] for each in (paths, naming))
    gates = gates_of(texts, (int(major), int(minor)), names)
    table = feature_gates.GATES_FILE
    before = table.read_text().splitlines()
    head = [line.replace(f"v{_release_of(before)}", f"v{release}") for line in before if line.startswith("#")]
    kept = [line.split() for line in before if line and not line.startswith("#")]
    rows = [*gate_rows(gates, {row[0]: row[5] for row in kept})]
    table.write_text("\n".join([*head, *rows]) + "\n")
    _tell([" ".join(row) for row in kept], rows)


def _release_of(lines: Iterable[str]) -> str:
    return next(found[1] for line in lines if (found := re.search(r"v(\d+\.\d+)", line)))


def _tell(before: Iterable[str], after: Iterable[str]) -> None:
    """Print rows that are new, gone or changed; the first word of a row is its name."""
    old, new = ({row.split()[0]: row for row in rows} for rows in (before, after))
    for name in sorted(old.keys() | new.keys()):
        if old.get(name) != new.get(name):
            print(f"{name}: {old.get(name, 'new')} -> {new.get(name, 'gone')}")


# ---- Metrics


def upstream_metrics(listed: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """By full name, the metrics that upstream's list has for kube-scheduler."""
    found = {}
    for each in listed:
        if any(end["component"] == "kube-scheduler" for end in each.get("componentEndpoints", ())):
            found["_".join(filter(None, (each.get("namespace"), each.get("subsystem"), each["name"])))] = each
    return found


def updated(metric: Description, listed: Mapping[str, Any]) -> Description:
    """A metric as upstream lists it. Upstream sorts labels; ours keep their order where they are the same."""
    labels = tuple(listed.get("labels", ()))
    bounds = tuple(map(float, listed.get("buckets", ())))
    return Description(
        metric.name,
        listed["type"].lower() if listed["type"] != "Custom" else metric.kind,
        listed["stabilityLevel"],
        metric.help,
        metric.labels if sorted(metric.labels) == sorted(labels) else labels,
        metric.bounds if _are_close(metric.bounds, bounds) else bounds,
        metric.shows_zero,
    )


def _are_close(ours: tuple[float, ...], listed: tuple[float, ...]) -> bool:
    """Upstream's list has rounded bounds."""
    return len(ours) == len(listed) and all(
        abs(one - other) <= 1e-9 * one for one, other in zip(ours, listed, strict=True)
    )


def write_metrics(path: str) -> None:
    """Update the rows of metrics.txt, and print the metrics that only one side has."""
    upstream = upstream_metrics(yaml.safe_load(Path(path).read_text()))
    table = metric_catalogue.METRICS_FILE
    before = table.read_text().splitlines()
    after = [_updated_row(row, upstream) for row in before]
    table.write_text("\n".join(after) + "\n")
    _tell(filter(_is_metric, before), filter(_is_metric, after))
    ours = {row.partition(" |")[0] for row in filter(_is_metric, before)}
    for name in sorted(upstream.keys() - ours):
        print(f"{name}: only upstream has it ({upstream[name]['stabilityLevel']})")
    for name in sorted(each for each in ours - upstream.keys() if not each.startswith("mooring_")):
        print(f"{name}: upstream's list for kube-scheduler does not have it")


def _is_metric(row: str) -> bool:
    return "|" in row and not row.startswith("#")


def _updated_row(row: str, upstream: Mapping[str, Mapping[str, Any]]) -> str:
    name = row.partition(" |")[0]
    if name not in upstream:
        return row
    metric = metric_catalogue.parse_row(row)
    changed = updated(metric, upstream[name])
    if changed == metric:
        return row
    buckets = row.split("|")[4].strip() if changed.bounds == metric.bounds else None
    return metric_catalogue.row_of(changed, buckets)


def main(arguments: list[str]) -> None:
    match arguments:
        case ["gates", release, *paths] if paths:
            end = paths.index("--names") if "--names" in paths else len(paths)
            write_gates(release, paths[:end], paths[end + 1 :])
        case ["metrics", path]:
            write_metrics(path)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
