"""The syntax of names, label keys and label values, with the texts of the API server, and the letters of generated names.

Upstream: apimachinery's pkg/util/validation. The limits of 63 and 253 bytes are those of DNS labels and DNS names. The
double spaces in the texts are upstream's.
"""

import re

_NAME = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_NAME_RULE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    f"(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '{_NAME}')"
)
_VALUE_RULE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_SUBDOMAIN = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
_SUBDOMAIN_RULE = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    f"end with an alphanumeric character (e.g. 'example.com', regex used for validation is '{_SUBDOMAIN}')"
)

_DNS_LABEL = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_DNS_LABEL_RULE = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    f"an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '{_DNS_LABEL}')"
)

_DNS_1035 = "[a-z]([-a-z0-9]*[a-z0-9])?"
_DNS_1035_RULE = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and "
    f"end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '{_DNS_1035}')"
)

_CONFIG_KEY = "[-._a-zA-Z0-9]+"
_CONFIG_KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  or "
    f"'key-name', regex used for validation is '{_CONFIG_KEY}')"
)

_name = re.compile(_NAME)
_value = re.compile(f"({_NAME})?")
_subdomain = re.compile(_SUBDOMAIN)
_dns_label = re.compile(_DNS_LABEL)
_dns_1035 = re.compile(_DNS_1035)
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


def subdomain_faults(text: str) -> list[str]:
    """The faults of a name, for most kinds of objects."""
    faults = ["must be no more than 253 bytes"] if len(text) > 253 else []
    if not _subdomain.fullmatch(text):
        faults.append(_SUBDOMAIN_RULE)
    return faults


def config_key_faults(text: str) -> list[str]:
    """The faults of a key of a ConfigMap; names of LeaseCandidates have the same form."""
    faults = ["must be no more than 253 characters"] if len(text) > 253 else []
    if not _config_key.fullmatch(text):
        faults.append(_CONFIG_KEY_RULE)
    if text in (".", ".."):
        faults.append(f"must not be '{text}'")
    elif text.startswith(".."):
        faults.append("must not start with '..'")
    return faults


def dns_label_faults(text: str) -> list[str]:
    """The faults of a name of a namespace or a container."""
    faults = ["must be no more than 63 bytes"] if len(text) > 63 else []
    if not _dns_label.fullmatch(text):
        faults.append(_DNS_LABEL_RULE)
    return faults


def dns_1035_faults(text: str) -> list[str]:
    """The faults of a name of a Service: environment variables are made of it, so that it starts with a letter."""
    faults = ["must be no more than 63 bytes"] if len(text) > 63 else []
    if not _dns_1035.fullmatch(text):
        faults.append(_DNS_1035_RULE)
    return faults


def label_value_faults(text: str) -> list[str]:
    faults = ["must be no more than 63 bytes"] if len(text) > 63 else []
    if not _value.fullmatch(text):
        faults.append(_VALUE_RULE)
    return faults


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
