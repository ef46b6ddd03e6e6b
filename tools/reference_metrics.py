"""The reference of metrics: every metric that a scheduler can have, from the descriptions that its registry takes."""

from collections.abc import Iterable, Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path

from reference_text import code, page, paragraphs, prose, table

import mooring
from mooring.framework.profile import metric_catalogue as catalogue
from mooring.kit.metrics import Description

SOURCE = Path(mooring.__file__).parent


def metrics_page() -> str:
    sections = [part for title, text, metrics in sections_of() for part in (f"## {title}", text, _table(metrics))]
    intro = """\
`/metrics` of `mooring run` has these metrics. Names, types, labels and buckets of all that do not begin with `mooring_` are
those of kube-scheduler v1.36 and its libraries, so that existing dashboards and alerts work. *Stability* is upstream's word:
a `STABLE` metric does not change, a `BETA` metric loses no label, an `ALPHA` metric may change with any version. A
[plugin](../plugins.md) may add metrics of its own. [On a cluster](../run.md#what-it-serves) describes who may read them."""
    return page("Metrics", intro, *sections)


def sections_of() -> Iterator[tuple[str, str, list[Description]]]:
    """Title, text and metrics of each section."""
    own = [metric for metric in catalogue.CATALOGUE if metric.name.startswith("mooring_")]
    yield "Of kube-scheduler", "", [metric for metric in catalogue.CATALOGUE if metric not in own]
    yield "Of Mooring", "", own
    yield from _declared_elsewhere()
    for gate, metrics in catalogue.BY_GATE.items():
        yield f"With the feature gate {gate}", "", list(metrics)
    yield "/metrics/slis", "", list(catalogue.HEALTH)
    yield "/metrics/resources", "", list(catalogue.RESOURCES)


def _declared_elsewhere() -> Iterator[tuple[str, str, list[Description]]]:
    """Modules that describe metrics of their own, each with what its docstring says."""
    known = {*catalogue.CATALOGUE, *chain(*catalogue.BY_GATE.values()), *catalogue.HEALTH, *catalogue.RESOURCES}
    for path in sorted(SOURCE.rglob("*.py")):
        if " = Description(" not in path.read_text():
            continue
        module = import_module(".".join(path.relative_to(SOURCE.parent).with_suffix("").parts))
        described = [value for value in vars(module).values() if isinstance(value, Description) and value not in known]
        if described:
            title = path.stem.removesuffix("_metrics").replace("_", " ").capitalize()
            yield title, paragraphs(module.__doc__ or ""), described


def _table(metrics: Iterable[Description]) -> str:
    rows = [
        [
            code(each.name),
            each.kind,
            ", ".join(map(code, each.labels)),
            each.stability,
            prose(each.help) + _buckets(each),
        ]
        for each in metrics
    ]
    return table(["metric", "type", "labels", "stability", "meaning"], rows)


def _buckets(metric: Description) -> str:
    if not metric.bounds:
        return ""
    return f" Buckets from {metric.bounds[0]:.4g} to {metric.bounds[-1]:.4g}."
