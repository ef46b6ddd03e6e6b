"""An answer as a web page: one file with tables and plots, without scripts and without anything from elsewhere.

`parts.py` has what answers give, `page.py` puts it together. All text is input that may be hostile: `text.py` makes it safe.
"""
