"""From anywhere to objects: manifests, dumps, live lists, arrivals and recordings, with one list of problems."""
