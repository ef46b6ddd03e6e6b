"""Certificates of the embedded API server: an authority, and the certificate that it signs for the server; and the files that
keep them from one start to the next.

All keys are EC P-256. The extensions are those that the strict checks of Go and OpenSSL require.
"""

import ipaddress
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.apiclient.credentials import KeyPair
from mooring.kit.bounded_reading import read_file
from mooring.kit.clock import NS_PER_S, Clock, WallClock
from mooring.kit.private_files import write_private

ALWAYS_NAMED = ("localhost", "127.0.0.1", "::1", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
"""Names in every server certificate: for local use, and those by which pods find the API server."""

AUTHORITY_LIFE = timedelta(days=3650)
LEAF_LIFE = timedelta(days=365)
"""As kubeadm: ten years and one year."""
RENEWED_BEFORE_END = timedelta(days=30)
"""A certificate that ends sooner is replaced at the next start."""
_CLOCK_SKEW = timedelta(hours=1)
"""A certificate is valid from a little before it is made, for clients whose clocks are behind."""


def new_authority(clock: Clock) -> KeyPair:
    """A self-signed authority, which may sign certificates but no further authorities."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-ca")])
    builder = (
        _builder(name, name, key, _now(clock), AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key, key)


def sign_server(authority: KeyPair, hosts: Sequence[str], clock: Clock) -> KeyPair:
    """A certificate for a server with these host names and addresses, and with ALWAYS_NAMED. It cannot sign other
    certificates, and it is valid for LEAF_LIFE."""
    issuer, issuer_key = _parsed(authority)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mooring-apiserver")])
    builder = (
        _builder(subject, issuer.subject, key, _now(clock), LEAF_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.SubjectAlternativeName(_general_names(hosts)), critical=False)
    )
    return _signed(builder, key, issuer_key)


def is_sound(pair: KeyPair, authority: KeyPair, clock: Clock) -> bool:
    """Whether certificate and key belong together, the authority signed the certificate, and it does not end soon."""
    try:
        certificate, key = _parsed(pair)
        issuer, _ = _parsed(authority)
        certificate.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    now = _now(clock)
    lives = certificate.not_valid_before_utc <= now < certificate.not_valid_after_utc - RENEWED_BEFORE_END
    return lives and certificate.public_key() == key.public_key()


def covers(pair: KeyPair, hosts: Sequence[str]) -> bool:
    """Whether a server certificate has all these names, and ALWAYS_NAMED."""
    certificate, _ = _parsed(pair)
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    return set(_general_names(hosts)) <= set(names)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, now: datetime, life: timedelta
) -> x509.CertificateBuilder:
    """Begin a certificate with the fields that all certificates have. It is valid from a little before `now` on, because
    clocks of other machines may be behind."""
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + life)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _signed(
    builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey, issuer_key: ec.EllipticCurvePrivateKey
) -> KeyPair:
    certificate = builder.sign(issuer_key, hashes.SHA256())
    key_pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key_pem)


def _parsed(pair: KeyPair) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    key = serialization.load_pem_private_key(pair.key_pem, password=None)
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise ValueError("the private key is not an EC key")
    return x509.load_pem_x509_certificate(pair.certificate_pem), key


def _general_names(hosts: Sequence[str]) -> list[x509.GeneralName]:
    """The names of a server certificate, without repetitions, in the given order."""
    return [*dict.fromkeys(_general_name(host) for host in (*ALWAYS_NAMED, *hosts))]


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]").partition("%")[0]))
    except ValueError:
        # Certificates hold the ASCII form (IDNA) of names in other scripts.
        return x509.DNSName(host.encode("idna").decode().lower())


def _key_usage(signs_certificates: bool) -> x509.KeyUsage:
    """Key usage of an authority, which signs certificates and revocation lists, or of a leaf, which only makes digital
    signatures."""
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _now(clock: Clock) -> datetime:
    return datetime.fromtimestamp(clock.now_ns() // NS_PER_S, UTC)


# ---- files


class CertificateFiles:
    """An authority and the certificate that it signed, in a directory. Without a directory, both are new and in memory.

    Each certificate is checked before use and replaced if it no longer fits: a new authority invalidates the other one.
    """

    def __init__(self, directory: Path | None = None, clock: Clock | None = None) -> None:
        self._directory = directory
        self._clock = clock or WallClock()
        self.authority = self._kept(
            "ca", lambda pair: is_sound(pair, pair, self._clock), lambda: new_authority(self._clock)
        )

    @property
    def authority_pem(self) -> bytes:
        """The certificate by which clients trust the server."""
        return self.authority.certificate_pem

    def server(self, hosts: Sequence[str] = ()) -> KeyPair:
        """The server's certificate. Hosts that the kept one lacks make a new one necessary."""
        return self._kept(
            "server",
            lambda pair: is_sound(pair, self.authority, self._clock) and covers(pair, hosts),
            lambda: sign_server(self.authority, hosts, self._clock),
        )

    def _kept(self, name: str, still_does: Callable[[KeyPair], bool], make: Callable[[], KeyPair]) -> KeyPair:
        """Return the key pair of this name from the directory if it is still usable; otherwise make a new pair and write both
        files. Without a directory each call makes a new pair."""
        if self._directory is None:
            return make()
        certificate, key = self._directory / f"{name}.crt", self._directory / f"{name}.key"
        with suppress(FileNotFoundError):
            pair = KeyPair(read_file(certificate), read_file(key))
            if still_does(pair):
                return pair
        pair = make()
        # Two files cannot be replaced in one step. After a crash between them the pair does not match, and is replaced.
        write_private(key, pair.key_pem)
        write_private(certificate, pair.certificate_pem)
        return pair
