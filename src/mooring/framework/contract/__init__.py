"""The specification of plugins: extension points, statuses, events, intents, and the context of an attempt."""
