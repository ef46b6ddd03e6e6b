"""CEL expressions about devices: the names that selectors and derived attributes may use, what their values may be, and the
most that they can cost. The scheduler compiles expressions of stored objects by these rules, the API server new ones."""

from functools import cache, lru_cache

from mooring.cel.estimates import LengthBounds, LengthsAt, Path
from mooring.cel.expression import CompileFault, Expression, compile_expression
from mooring.cel.functions.amounts import AMOUNTS, QUANTITY, SEMVER, named_formats
from mooring.cel.functions.lists import LISTS
from mooring.cel.functions.networks import CIDR, IP, NETWORKS, URLS
from mooring.cel.functions.standard import STANDARD, TYPES
from mooring.cel.functions.texts import TEXTS, VALIDATORS
from mooring.cel.functions.times import TIMES
from mooring.cel.language.checker import Declarations
from mooring.cel.library import Library
from mooring.cel.values import ANY, BOOL, DYN, INT, STRING, Type, map_of
from mooring.model import names

MAX_COST = 1_000_000
"""The most that one expression may cost for one device, and that all derived attributes of a claim may cost together
(CELSelectorExpressionMaxCost, DeviceClaimDerivedAttributeCELMaxCost). Upstream takes it for a tenth of a second."""
MAX_BYTES = 10 * 1024
"""The longest expression (CELSelectorExpressionMaxLength). The API server rejects longer ones, so none is ever compiled."""

_DEVICE = Type("kubernetes.DRADevice")
_ENTRIES, _DOMAIN, _ID, _DRIVER, _VALUE = 32, 63, 32, 63, 64
"""The most attributes and capacities of a device, and the longest domains, names, names of drivers and values."""
_SIZES: dict[Path, LengthBounds] = {
    ("device", "driver"): LengthBounds(0, _DRIVER),
    ("device", "allowMultipleAllocations"): LengthBounds(0, 1),
    **{("device", part): LengthBounds(0, _ENTRIES) for part in ("attributes", "capacity")},
    **{("device", part, "@keys"): LengthBounds(0, _DOMAIN) for part in ("attributes", "capacity")},
    **{("device", part, "@values"): LengthBounds(0, _ENTRIES) for part in ("attributes", "capacity")},
    **{("device", part, "@values", "@keys"): LengthBounds(0, _ID) for part in ("attributes", "capacity")},
    ("device", "capacity", "@values", "@values"): LengthBounds(0, 0),
}
"""The bounds of lengths by path."""

_FORMATS = {
    "dns1123Label": names.dns_label_faults,
    "dns1123Subdomain": names.subdomain_faults,
    "dns1035Label": names.dns_1035_faults,
    "qualifiedName": names.qualified_name_faults,
    "labelValue": names.label_value_faults,
}
FUNCTIONS = (*STANDARD, *TIMES, *TEXTS, *LISTS, *AMOUNTS, *NETWORKS, *URLS, *named_formats(_FORMATS))


@cache
def declarations(has_lists: bool = True) -> Declarations:
    """Names, fields and functions that CEL expressions of claims and classes may use. Parity: `device` is an object, so an
    expression with a misspelled field does not compile. Expressions that are stored may use whatever any feature gate
    allows; new ones have no attributes that are lists without DRAListTypeAttributes."""
    fields = {
        "driver": STRING,
        "allowMultipleAllocations": BOOL,
        "attributes": map_of(STRING, map_of(STRING, DYN if has_lists else ANY)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
    library = Library([each for each in FUNCTIONS if has_lists or each.function != "includes"])
    types = {**TYPES, IP.name: IP, CIDR.name: CIDR}
    return Declarations(library, {"device": _DEVICE}, {_DEVICE.name: fields}, types, VALIDATORS)


def compile_text(text: str, *, has_lists: bool = True, size_at: LengthsAt | None = None) -> Expression:
    """The expression, with the attributes of `declarations`; with lengths it knows its worst cost. Raises CompileFault."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise CompileFault(f"compilation failed: Too long: may not be more than {MAX_BYTES} bytes")
    return compile_expression(text, declarations(has_lists), size_at)


def check_selector(kind: Type, *, has_lists: bool = True) -> None:
    """Raises CompileFault for the type of an expression that is no selector. Parity: unknown is the type of attributes."""
    if kind not in (BOOL, DYN if has_lists else ANY):
        raise CompileFault(f"must evaluate to bool or the unknown type, not {_declared(kind)}")


def check_derived(kind: Type, *, has_lists: bool = True) -> None:
    """Raises CompileFault for the type of an expression that attributes cannot have."""
    element = kind.params[0] if kind.name == "list" and has_lists else kind
    if element not in (BOOL, INT, STRING, DYN, ANY, SEMVER):
        allowed = "a primitive scalar (string, integer, boolean, semver)"
        lists = " or a list of these scalars" if has_lists else ""
        raise CompileFault(f"must evaluate to {allowed}{lists}, not {_declared(kind)}")


def _declared(kind: Type) -> str:
    """The type as cel-go declares it: only errors of its checker have the short name `any`."""
    return str(kind).replace(ANY.name, "google.protobuf.Any")


# Bounded, because users write expressions into claims. Claims of one template have the same ones.
@lru_cache(maxsize=4096)
def new_expression(text: str, is_derived: bool, has_lists: bool) -> int | str:
    """The most that a new expression can cost for a device, or what is wrong with it."""
    check = check_derived if is_derived else check_selector
    try:
        expression = compile_text(text, has_lists=has_lists, size_at=device_size)
        check(expression.type, has_lists=has_lists)
    except CompileFault as fault:
        return str(fault)
    return expression.worst_cost


def device_size(path: Path, kind: Type) -> LengthBounds | None:
    """The bounds of the length of a part of a device; every attribute has the same.

    ("device", "attributes", "@values", "model") -> at most 64 characters
    ("device", "capacity", "@keys")              -> at most 63 characters
    """
    steps = tuple("@values" if step == "@items" else step for step in path)
    found = _SIZES.get(steps)
    if found is None and len(steps) == 4 and steps[:3] == ("device", "attributes", "@values"):
        return LengthBounds(0, _VALUE)
    return found
