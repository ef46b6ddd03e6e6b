"""The life cycle of objects: garbage collection, namespaces, finished pods, expired events, quotas."""
