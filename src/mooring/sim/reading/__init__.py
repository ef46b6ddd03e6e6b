"""Manifests, folders, dumps and arrivals as users write them."""
