"""From the text of an expression to a checked syntax tree."""
