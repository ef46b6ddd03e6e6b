"""The forms of answers: tables, JSON, text and HTML."""
