"""Answers of plugins that are kept from one attempt to the next."""
