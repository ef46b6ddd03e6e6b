"""The cluster as columns: a node is a row of the node table; pods are counted where they are."""
