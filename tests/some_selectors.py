"""Strategies for selectors of a few labels, and for pods that have these labels or not."""

from hypothesis import strategies as st

from mooring.model.affinity import PodPredicate
from mooring.model.selectors import NOTHING, LabelRule, Selector

_KEYS, _VALUES = st.sampled_from("abc"), st.sampled_from("xyz")
_WITH_VALUES = st.builds(
    LabelRule, _KEYS, st.sampled_from(["In", "NotIn"]), st.frozensets(_VALUES, min_size=1, max_size=2)
)
_RULES = _WITH_VALUES | st.builds(LabelRule, _KEYS, st.sampled_from(["Exists", "DoesNotExist"]))

_LISTS = st.lists(_RULES, max_size=4).map(tuple)
SELECTORS = st.builds(Selector, _LISTS) | st.builds(Selector, _LISTS, is_nothing=st.booleans()) | st.just(NOTHING)
NAMESPACES = st.sampled_from(("red", "blue"))
LABELS = st.dictionaries(_KEYS, _VALUES)
PREDICATES = st.builds(PodPredicate, SELECTORS, st.frozensets(NAMESPACES), st.booleans())
