"""DynamicResources: claims, the devices that ResourceSlices offer, and the search that brings them together.

Read in this order: demand.py (what claims ask for), pools.py and node_groups.py (which devices a node sees), search.py
(which devices a claim gets there), device_search_cache.py (keeps the results), dynamic_resources.py (the plugin), work.py
(PreBind).
"""

IMPORTED_LATER = ("cel",)
"""Modules that list no plugins and are not imported at the start: see effort.py."""
