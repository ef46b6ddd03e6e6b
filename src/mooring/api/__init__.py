"""Kubernetes objects as JSON: kinds, fields, validation, patches, and the columns of their tables."""
