"""The syntax of names, label keys and label values, with the texts of the API server; the letters of generated names; and the
labels of nodes that Kubernetes itself gives a meaning.

Upstream: apimachinery's pkg/util/validation. The limits of 63 and 253 bytes are those of DNS labels and DNS names. The
double spaces in the texts are upstream's.
"""

import re
from collections.abc import Callable

# ---- labels of nodes (upstream: api/core/v1/well_known_labels.go)

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
TOPOLOGY = (ZONE, REGION)
"""The labels that the API server copies from a node to its pods, so that containers can read them through the downward API,
and provisioners from a node to its volumes."""

BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"
"""Names of these labels before Kubernetes 1.17; old manifests still have them."""

# ---- forms of names

NameForm = Callable[[str], list[str]]
"""Returns the faults of a text in the server's words; none if it has the form."""


def _rule(what: str, examples: str, regex: str) -> str:
    """How the server words every rule of a form."""
    return f"{what} (e.g. {examples}, regex used for validation is '{regex}')"


def _form(regex: str, longest: int, rule: str) -> NameForm:
    """The form of names that match a regular expression and have at most `longest` bytes."""
    matches, too_long = re.compile(regex).fullmatch, f"must be no more than {longest} bytes"

    def faults(text: str) -> list[str]:
        found = [too_long] if len(text) > longest else []
        return found if matches(text) else [*found, rule]

    return faults


_CHARACTERS = "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character"
_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE = _rule(f"must consist of {_CHARACTERS}", "'MyName',  or 'my.name',  or '123-abc'", _NAME)
_VALUE = f"({_NAME})?"
_VALUE_RULE = f"a valid label must be an empty string or consist of {_CHARACTERS}"
_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an "
    "alphanumeric character"
)
_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    "end with an alphanumeric character"
)
_SUBDOMAIN = rf"{_DNS_LABEL}(\.{_DNS_LABEL})*"
_SUBDOMAIN_RULE = _rule(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character",
    "'example.com'",
    _SUBDOMAIN,
)
_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_RULE = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'"

subdomain_faults = _form(_SUBDOMAIN, 253, _SUBDOMAIN_RULE)
"""The faults of a name, for most kinds of objects."""
dns_label_faults = _form(_DNS_LABEL, 63, _rule(_DNS_LABEL_RULE, "'my-name',  or '123-abc'", _DNS_LABEL))
"""The faults of a name of a namespace or a container."""
dns_1035_faults = _form(_DNS_1035, 63, _rule(_DNS_1035_RULE, "'my-name',  or 'abc-123'", _DNS_1035))
"""The faults of a name of a Service: environment variables are made of it, so that it starts with a letter."""
label_value_faults = _form(_VALUE, 63, _rule(_VALUE_RULE, "'MyValue',  or 'my_value',  or '12345'", _VALUE))
"""The faults of the value of a label."""

_PERCENT = "[0-9]+%"
_PERCENT_RULE = _rule(
    "a valid percent string must be a numeric string followed by an ending '%'", "'1%',  or '93%'", _PERCENT
)

_name = re.compile(_NAME)
_port_name = re.compile("[-a-z0-9]+")
_letter = re.compile("[a-z]")
_percent = re.compile(_PERCENT)
_subdomain = re.compile(_SUBDOMAIN)
_config_key = re.compile(_CONFIG_KEY)


def qualified_name_faults(text: str) -> list[str]:
    """The faults of a label key or a resource name, which is `name` or `dns.prefix/name`; empty if there are none."""
    prefix, slash, name = text.partition("/")
    faults = []
    if not slash:
        name, prefix = text, ""
    elif "/" in name:
        return [
            f"a qualified name {_NAME_RULE} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        ]
    elif not prefix:
        faults.append("prefix part must be non-empty")
    elif len(prefix) > 253:
        faults.append("prefix part must be no more than 253 bytes")
    elif not _subdomain.fullmatch(prefix):
        faults.append(f"prefix part {_SUBDOMAIN_RULE}")
    if not name:
        faults.append("name part must be non-empty")
    elif len(name) > 63:
        faults.append("name part must be no more than 63 bytes")
    if not _name.fullmatch(name):
        faults.append(f"name part {_NAME_RULE}")
    return faults


def config_key_faults(text: str) -> list[str]:
    """The faults of a key of a ConfigMap; names of LeaseCandidates have the same form."""
    faults = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _config_key.fullmatch(text):
        faults.append(_rule(_CONFIG_KEY_RULE, "'key.name',  or 'KEY_NAME',  or 'key-name'", _CONFIG_KEY))
    if text in (".", ".."):
        faults.append(f"must not be '{text}'")
    elif text.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def path_segment_faults(text: str) -> list[str]:
    """The faults of a name of which nothing is asked but that it can be a part of a path."""
    if text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{character}'" for character in "/%" if character in text]


def port_name_faults(text: str) -> list[str]:
    """The faults of the name of a container port: a service name of RFC 6335."""
    faults = ["must be no more than 15 characters"] if len(text) > 15 else []
    if not _port_name.fullmatch(text):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not _letter.search(text):
        faults.append("must contain at least one letter (a-z)")
    if "--" in text:
        faults.append("must not contain consecutive hyphens")
    if text.startswith("-") or text.endswith("-"):
        faults.append("must not begin or end with a hyphen")
    return faults


def percent_faults(text: str) -> list[str]:
    """The faults of a share such as `25%`."""
    return [] if _percent.fullmatch(text) else [_PERCENT_RULE]


def is_qualified_name(text: str) -> bool:
    return not qualified_name_faults(text)


def is_extended_resource(name: str) -> bool:
    """Whether a resource is extended, such as `example.com/gpu`: with a domain that is not Kubernetes' own.

    Parity: upstream forbids the prefix `requests.`, and then checks the name with that prefix, because quotas add it.
    """
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return is_qualified_name("requests." + name)


def is_scalar_resource(name: str) -> bool:
    """Whether the scheduler counts a resource beside cpu, memory, ephemeral-storage and pods. It ignores other names."""
    return (
        name.startswith(("hugepages-", "attachable-volumes-")) or "kubernetes.io/" in name or is_extended_resource(name)
    )


# ---- generated names

SAFE_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Upstream's alphabet for generated names (apimachinery's util/rand): without vowels and digits that look like them, no name
contains a word by accident."""


def safe_encode(data: bytes) -> str:
    """A safe letter for each byte, as upstream's SafeEncodeString."""
    return "".join(SAFE_LETTERS[byte % len(SAFE_LETTERS)] for byte in data)
