"""Which fields each kind has, and the documents that say so."""
