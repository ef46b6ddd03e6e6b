"""The plugin framework: extension points (points.py: read first), statuses, configuration, profiles, runner."""
