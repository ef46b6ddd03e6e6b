"""The tables that kubectl prints."""
