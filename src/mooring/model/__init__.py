"""Kubernetes objects as far as a scheduler reads them, and pure rules on them: quantities, selectors, requests, shapes.

Objects have two forms. Structs (meta, pod, node, storage, devices, workloads) hold the fields that affect a decision, and
decode fast. Plain JSON (`api/json_objects.py`) keeps all fields, for everything that writes objects back. Nothing here
reads a clock, a file or a socket.
"""
