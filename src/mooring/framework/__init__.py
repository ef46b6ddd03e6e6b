"""The plugin framework: extension points (points.py: read first), statuses, registry, profiles, configuration, runner."""
