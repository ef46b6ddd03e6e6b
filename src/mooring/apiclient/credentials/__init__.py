"""Credentials of a client: tokens, passwords, certificates and exec plugins; and the private files that hold them."""
