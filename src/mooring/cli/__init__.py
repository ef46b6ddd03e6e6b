"""The command line: parses arguments, makes one call, prints."""
