"""The node table: one row for each node, columns for what plugins read."""
