"""Access to an API server: connections, credentials, kubeconfig files and reflectors.

`client.ApiClient` is the general client, for lists, watches and single requests. `lean_client.LeanClient` is for the many
short writes of a scheduler. Both send writes only while the lease lasts (kit/tasks.py).
"""
