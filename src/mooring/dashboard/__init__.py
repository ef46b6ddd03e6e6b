"""The dashboard: what a browser shows of a scheduler, live or recorded, and how it is served."""
