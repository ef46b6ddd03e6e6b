"""The embedded API server: store, journal, admission, patches, schema, tables, HTTP."""
