"""Why a pod is where it is, or why it is nowhere, and what would place it."""
