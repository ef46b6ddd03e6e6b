"""The arguments of TeamQueues: teams, what is theirs, and what they may borrow and lend."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal

import msgspec

from mooring.plugin import MAX_AMOUNT, QuantityError, parse_quantity, show_amount, to_amount, to_milli_amount

Amounts = tuple[int, ...]
"""An amount of each resource that a quota names, in the units of the node table: milli-CPU, bytes, pieces."""

NO_LIMIT = 1 << 62
MOST_TEAMS = 1000
"""Each decision about borrowing looks at all teams."""

PODS = "pods"
"""A quota of this counts pods, whatever they request."""


class TeamArgs(msgspec.Struct, forbid_unknown_fields=True, frozen=True, rename="camel"):
    """One team, as it is written in the configuration."""

    name: str
    namespaces: list[str]
    quota: dict[str, str | int | float]
    weight: float = 1
    borrow: bool = True
    borrowing_limit: dict[str, str | int | float] = {}
    lend: bool = True
    lending_limit: dict[str, str | int | float] = {}
    reclaim: Literal["Any", "LowerPriority", "Never"] = "Any"
    preempt_within_team: Literal["LowerPriority", "Never"] = "LowerPriority"


class TeamQueuesArgs(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    teams: list[TeamArgs]


@dataclass(frozen=True, slots=True)
class Team:
    """A team with its amounts in the order of `Teams.resources`."""

    name: str
    weight: float
    quota: Amounts
    most_borrowed: Amounts
    most_lent: Amounts
    reclaim: str
    preempts_own: bool
    """Whether its pods preempt pods of lower priority of its own."""


@dataclass(frozen=True, slots=True)
class Teams:
    """All teams. The quotas together are what teams share."""

    resources: tuple[str, ...]
    teams: tuple[Team, ...]
    of_namespace: Mapping[str, int]
    """Namespace -> place in `teams`."""
    total: Amounts

    @classmethod
    def read(cls, args: object) -> "Teams":
        """Raises ValueError with all that is wrong, each with its path."""
        written = _decoded(args)
        problems = [*_problems(written.teams)]
        if problems:
            raise ValueError("; ".join(problems))
        resources = tuple(dict.fromkeys(name for team in written.teams for name in team.quota))
        teams = tuple(_team(team, resources) for team in written.teams)
        book = {name: place for place, team in enumerate(written.teams) for name in team.namespaces}
        total = tuple(sum(team.quota[i] for team in teams) for i in range(len(resources)))
        return cls(resources, teams, book, total)

    def share(self, team: int, used: Iterable[int]) -> float:
        """The weighted dominant share: the largest share of a resource that the team has of all quotas, by its weight.

        | used      | total     | weight |      |
        | 5, 10     | 10, 100   | 1      | 0.5  |
        | 5, 10     | 10, 100   | 2      | 0.25 |
        """
        parts = (amount / total for amount, total in zip(used, self.total, strict=True) if total)
        return max(parts, default=0.0) / self.teams[team].weight

    def show(self, place: int, amount: int) -> str:
        """An amount with its resource, as people write it: 4 cpu."""
        return f"{show_amount(self.resources[place], amount)} {self.resources[place]}"


def _decoded(args: object) -> TeamQueuesArgs:
    try:
        return msgspec.convert(args if args is not None else {}, TeamQueuesArgs)
    except msgspec.ValidationError as fault:
        text, _, path = str(fault).partition(" - at ")
        where = path.strip("`").removeprefix("$").removeprefix(".")
        raise ValueError(f"{where}: {text}{_alike(text)}" if where else f"{text}{_alike(text)}") from None


def _alike(text: str) -> str:
    """The nearest field, where a field is unknown."""
    if "unknown field" not in text:
        return ""
    fields = [*TeamArgs.__struct_encode_fields__, *TeamQueuesArgs.__struct_encode_fields__]
    found = get_close_matches(text.split("`")[1], fields, n=1)
    return f"; did you mean {found[0]}?" if found else f"; the fields are {', '.join(fields)}"


def _problems(teams: list[TeamArgs]) -> Iterator[str]:
    """What is wrong with the teams beyond types."""
    if not 1 <= len(teams) <= MOST_TEAMS:
        yield f"teams: Invalid value: {len(teams)} teams: write 1 to {MOST_TEAMS}"
    owners: dict[str, str] = {}
    names: set[str] = set()
    resources = [*dict.fromkeys(name for team in teams for name in team.quota)]
    for place, team in enumerate(teams):
        path = f"teams[{place}]"
        if team.name in names:
            yield f'{path}.name: Duplicate value: "{team.name}"'
        names.add(team.name)
        for namespace in team.namespaces:
            if owners.setdefault(namespace, path) != path:
                yield f'{path}.namespaces: Duplicate value: "{namespace}": it belongs to {owners[namespace]} already'
        yield from _team_problems(path, team)
        yield from _bad_amounts(f"{path}.quota", team.quota, resources)
        yield from _bad_amounts(f"{path}.borrowingLimit", team.borrowing_limit, resources)
        yield from _bad_amounts(f"{path}.lendingLimit", team.lending_limit, resources)


def _team_problems(path: str, team: TeamArgs) -> Iterator[str]:
    if not team.name:
        yield f"{path}.name: Required value: name the team"
    if not team.namespaces:
        yield f"{path}.namespaces: Required value: name the namespaces of the team"
    if not 0 < team.weight < MAX_AMOUNT:
        yield f"{path}.weight: Invalid value: {team.weight:g}: must be greater than 0"
    if not team.quota:
        yield f"{path}.quota: Required value: name an amount of at least one resource"


def _bad_amounts(path: str, amounts: Mapping[str, Any], resources: list[str]) -> Iterator[str]:
    for name, text in amounts.items():
        if name not in resources:
            near = get_close_matches(name, resources, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            yield f'{path}: Invalid value: "{name}": no team has a quota of it{hint}'
        try:
            if parse_quantity(text) < 0:
                yield f"{path}.{name}: Invalid value: {text!r}: must not be negative"
        except QuantityError as fault:
            yield f"{path}.{name}: Invalid value: {fault}"


def _team(team: TeamArgs, resources: tuple[str, ...]) -> Team:
    quota = _amounts(team.quota, resources, 0)
    borrowed = _amounts(team.borrowing_limit, resources, NO_LIMIT if team.borrow else 0)
    lent = _amounts(team.lending_limit, resources, NO_LIMIT if team.lend else 0)
    none = (0,) * len(resources)
    return Team(
        team.name,
        float(team.weight),
        quota,
        borrowed if team.borrow else none,
        lent if team.lend else none,
        team.reclaim,
        team.preempt_within_team == "LowerPriority",
    )


def _amounts(written: Mapping[str, Any], resources: tuple[str, ...], otherwise: int) -> Amounts:
    return tuple(_amount(name, written[name]) if name in written else otherwise for name in resources)


def _amount(resource: str, text: str | int | float) -> int:
    return to_milli_amount(parse_quantity(text)) if resource == "cpu" else to_amount(parse_quantity(text))
