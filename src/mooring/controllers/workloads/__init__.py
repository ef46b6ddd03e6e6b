"""Controllers of workloads: each keeps the pods of its kind as its objects ask for."""
