"""The commands of `mooring`: one module each, with a click command of the same name. A new file here is a new command."""
