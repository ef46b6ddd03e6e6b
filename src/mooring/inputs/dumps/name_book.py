"""New names for an anonymous dump: one for each text, in the same order, and never for words that are Kubernetes' own.

Decisions compare names: the lowest node name breaks ties, the first volume of a size is taken, pools of devices are tried by
name. So the new names sort as the old ones do, and the same text has the same new name wherever it occurs.
"""

import re
import tomllib
from collections.abc import Mapping, Set
from pathlib import Path

from mooring.api.kinds import BY_KIND, KINDS
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.model.volumes import DELIMITER, DRIVERS, IN_TREE_PLUGINS, TOPOLOGY_LABELS

# ---- words that are Kubernetes' own, and forms that have no room for a word

PUBLIC = {
    name: frozenset(words)
    for name, words in tomllib.loads(Path(__file__).with_name("public_words.toml").read_text()).items()
}
PUBLIC_PROVISIONERS = IN_TREE_PLUGINS | {"kubernetes.io/no-provisioner"}
"""Provisioners that come with Kubernetes; decisions tell the last one from others."""
PUBLIC_FEATURES = frozenset(DEFAULTS)
"""Nodes declare features under the names of their gates."""

_DIGITS = r"[0-9]{1,30}"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")
NUMBER = re.compile(_DIGITS)
AMOUNT = re.compile(rf"[+-]?({_DIGITS})?\.?({_DIGITS})?([eE][+-]?{_DIGITS}|[numkMGTPE]|[KMGTPE]i)?%?")
"""A quantity or a percentage."""
DURATION = re.compile(r"([0-9.]{1,30}(ns|us|ms|s|m|h))+")
HUGE_PAGES = re.compile(rf"hugepages-{_DIGITS}([KMGTPE]i)?")
OWN_REQUEST = re.compile(rf"container-{_DIGITS}-request-{_DIGITS}")
"""The names of requests in claims for extended resources, which the scheduler writes."""

WORDS = PUBLIC["constants"] | {*KINDS, *(kind for _, kind in BY_KIND)}
"""Constants of fields, and kinds."""


_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage", "storage", "pods"))
_RESOURCE_PREFIXES = (
    "requests.",
    "hugepages-",
    "attachable-volumes-csi-",
    "attachable-volumes-",
    "deviceclass.resource.kubernetes.io/",
)
_OWN_DOMAIN = "kubernetes.io/"


class NameBook:
    """First `name` and its kin only note the texts and return them; after `close` they return the new names."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._new: dict[str, str] | None = None
        self.numbers: set[str] = set()
        """Values of labels that selectors compare as numbers (Gt, Lt), which must stay."""
        self.compared_keys: set[str] = set()
        """The keys of those labels."""
        self.expressions: dict[str, str] = {}
        """New texts of device selectors (device_groups.py)."""
        self.made_of: dict[str, tuple[str, str]] = {}
        """Names of claims that are made of the names of a pod and its volume; they are looked up in this form."""
        self.kept_annotations = AnnotationKeys()
        """Annotations that the user wants to keep as they are."""
        self.renamed_annotations = AnnotationKeys()
        """Annotations that plugins read: they stay under another key and with another value."""

    def close(self) -> None:
        """Give out names: `x` and the rank among all texts, with as many digits as the largest needs."""
        width = len(str(len(self._texts)))
        self._new = {text: f"x{rank:0{width}}" for rank, text in enumerate(sorted(self._texts))}

    def noted(self) -> Set[str]:
        """All texts that get a new name."""
        return self._texts

    def new_names(self) -> Mapping[str, str]:
        """Old name -> new name, when the book is closed."""
        return self._new or {}

    @property
    def is_closed(self) -> bool:
        return self._new is not None

    def name(self, text: str) -> str:
        """The new name of any text."""
        if not text:
            return text
        if self._new is None:
            self._texts.add(text)
            return text
        return self._new[text]

    def public_name(self, text: str) -> str:
        """The name of a namespace, class or scheduler, which may be one that every cluster has."""
        return text if text in PUBLIC["names"] else self.name(text)

    def driver(self, text: str) -> str:
        """A driver or provisioner; the volumes of in-tree plugins are counted under the public names of their drivers."""
        return text if text in DRIVERS or text in PUBLIC_PROVISIONERS else self.name(text)

    def finalizer(self, text: str) -> str:
        """A finalizer has a domain, or is Kubernetes' own. The scheduler looks for the one of resource claims; all others
        only keep an object."""
        return text if text in PUBLIC["finalizers"] else f"example.com/{self.name(text)}"

    def claim(self, text: str) -> str:
        """The name of a volume claim."""
        if text in self.made_of:
            return "-".join(map(self.name, self.made_of[text]))
        return self.name(text)

    # ---- labels and taints

    def key(self, text: str) -> str:
        return text if text in PUBLIC["keys"] else self.name(text)

    def value(self, text: str) -> str:
        is_public = text in PUBLIC["values"] or text in PUBLIC["names"] or text in self.numbers
        return text if is_public else self.name(text)

    def value_of(self, key: str, text: str) -> str:
        """The value under a key: a volume may have several zones in one value."""
        if key in TOPOLOGY_LABELS and DELIMITER in text:
            return DELIMITER.join(map(self.value, text.split(DELIMITER)))
        return self.value(text)

    # ---- names with an inner form

    def resource(self, text: str) -> str:
        """`acme.com/gpu`: the domain stays a domain, because a configuration may ignore all resources of a domain."""
        if text in _RESOURCES or HUGE_PAGES.fullmatch(text):
            return text
        for prefix in _RESOURCE_PREFIXES:
            if text.startswith(prefix):
                return prefix + self.resource(text.removeprefix(prefix))
        if _OWN_DOMAIN in text:
            return _OWN_DOMAIN + self.name(text)
        return self.qualified(text)

    def qualified(self, text: str) -> str:
        """`domain/name` or `name`: attributes and capacities of devices belong to the domain of their driver."""
        domain, slash, rest = text.partition("/")
        return f"{self.driver(domain)}/{self.name(rest)}" if slash else self.name(text)

    def request(self, text: str) -> str:
        """A request of a resource claim, or an alternative of one: `request/alternative`."""
        return "/".join(part if OWN_REQUEST.fullmatch(part) else self.name(part) for part in text.split("/"))

    def image(self, text: str) -> str:
        """Images without a tag are those with the tag `latest`, so the text with its tag is what gets a name."""
        has_tag = text.rfind(":") > text.rfind("/")
        return f"{self.name(text if has_tag else f'{text}:latest')}:v"

    def image_on_node(self, text: str) -> str:
        """Images of nodes are compared as they are written."""
        return self.image(text) if text.rfind(":") > text.rfind("/") else self.name(text)

    def volume_id(self, text: str) -> str:
        """`aws://zone/vol-1` and `vol-1` are the same volume to the driver, and two to the in-tree plugin."""
        if text.startswith("aws://"):
            return "aws://" + "/".join(map(self.name, text.removeprefix("aws://").split("/")))
        return self.name(text)

    def version(self, text: str) -> str:
        """A version stays a version; only equality counts."""
        new = self.name(text)
        return f"0.0.{int(new[1:])}" if self.is_closed else text

    def address(self, text: str) -> str:
        """An IP address that a port is bound to; new ones are from the range for documentation. Wildcards and the loopback
        address have a meaning."""
        if text in ("", "0.0.0.0", "::", "127.0.0.1", "::1"):
            return text
        new = self.name(text)
        return f"2001:db8::{int(new[1:]):x}" if self.is_closed else text
