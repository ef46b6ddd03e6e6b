"""How full zones and pools are, as plots: at one moment, or at several side by side."""

from collections.abc import Mapping, Sequence

from mooring.answers.form.report_parts import AnswerPlot, BarPlot, Unit
from mooring.answers.form.utilisation import MAIN, GroupUse

Groups = Mapping[str, GroupUse]
_NONE = GroupUse()


def use_plots(kind: str, moments: Mapping[str, Groups]) -> list[AnswerPlot]:
    """Pods and requested shares by group; `kind` is what the groups are, and moments have names. Empty without groups."""
    names = sorted({name for groups in moments.values() for name in groups})
    if not names:
        return []
    pods = {moment: [float(groups.get(name, _NONE).pods) for name in names] for moment, groups in moments.items()}
    counted = BarPlot(f"Pods by {kind}", names, pods if len(moments) > 1 else {"pods": next(iter(pods.values()))})
    return [counted, *_shares(kind, names, moments)]


def _shares(kind: str, names: Sequence[str], moments: Mapping[str, Groups]) -> list[AnswerPlot]:
    """One plot with all resources, or one of each resource that compares moments."""
    shares = {
        (resource, moment): [groups.get(name, _NONE).share(resource) for name in names]
        for resource in MAIN
        for moment, groups in moments.items()
    }
    if len(moments) == 1:
        bars = {resource: values for (resource, _), values in shares.items()}
        return [BarPlot(f"Requested share by {kind}", names, bars, Unit.SHARE)]
    return [
        BarPlot(
            f"Requested {resource} by {kind}",
            names,
            {moment: shares[resource, moment] for moment in moments},
            Unit.SHARE,
        )
        for resource in MAIN
    ]
