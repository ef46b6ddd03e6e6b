"""Lists of resources as plain JSON: what the API server does to quantities before it stores them."""

from mooring.model.json_objects import JsonObject
from mooring.model.pod_spec import ResourceList
from mooring.model.quantity import NANO, parse, to_milli

_MILLI = NANO // 1000


def round_up(amounts: ResourceList | None) -> None:
    """Quantities finer than a thousandth become whole thousandths; what is not a quantity is left to validation."""
    for name, text in (amounts or {}).items():
        try:
            nano = parse(text)
        except ValueError:
            continue
        if amounts is not None and nano % _MILLI:
            amounts[name] = f"{to_milli(nano)}m"


def complete_limit_item(item: JsonObject) -> None:
    """An item of a LimitRange: a maximum is the default limit; that, or else a minimum, is the default request."""
    if item.get("type") == "Container":
        limits = {**item.get("max", {}), **item.get("default", {})}
        asked = {**item.get("min", {}), **limits, **item.get("defaultRequest", {})}
        item |= {key: group for key, group in (("default", limits), ("defaultRequest", asked)) if group}
