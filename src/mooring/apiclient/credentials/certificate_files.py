"""The certificates of our API server from one start to the next: kept in a directory, renewed when they no longer do."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from mooring.apiclient.credentials.certificates import (
    KeyPair,
    covers,
    is_sound,
    names_client,
    new_authority,
    sign_client,
    sign_server,
)
from mooring.apiclient.credentials.private_files import write_private
from mooring.kit.clock import Clock, WallClock


class CertificateFiles:
    """An authority and what it signed. Without a directory everything is made anew and kept in memory only.

    A new authority makes all earlier certificates worthless, so each is checked against the present one.
    """

    def __init__(self, directory: Path | None = None, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or WallClock()
        self._authority = self._kept("ca", lambda pair: is_sound(pair, pair, self._clock), self._new_authority)

    @property
    def authority_pem(self) -> bytes:
        """What clients need in order to trust the server, and the server in order to trust clients."""
        return self._authority.certificate_pem

    def server(self, hosts: Sequence[str] = ()) -> KeyPair:
        """The server's certificate; more hosts than last time make a new one."""
        return self._kept(
            "server",
            lambda pair: self._is_sound(pair) and covers(pair, hosts),
            lambda: sign_server(self._authority, hosts, self._clock),
        )

    def client(self, user: str, groups: Sequence[str] = ()) -> KeyPair:
        return self._kept(
            f"client-{quote(user, safe='')}",
            lambda pair: self._is_sound(pair) and names_client(pair, user, groups),
            lambda: sign_client(self._authority, user, groups, self._clock),
        )

    def _new_authority(self) -> KeyPair:
        return new_authority(self._clock)

    def _is_sound(self, pair: KeyPair) -> bool:
        return is_sound(pair, self._authority, self._clock)

    def _kept(self, name: str, still_does: Callable[[KeyPair], bool], make: Callable[[], KeyPair]) -> KeyPair:
        if self._directory is None:
            return make()
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        with suppress(FileNotFoundError):
            pair = KeyPair(certificate.read_bytes(), key.read_bytes())
            if still_does(pair):
                return pair
        pair = make()
        # Two files cannot be replaced at once. A crash in between leaves a pair that does not fit: then it is remade.
        write_private(key, pair.key_pem)
        write_private(certificate, pair.certificate_pem)
        return pair
