"""Client certificates as Kubernetes reads them: CN is the user, each O is a group."""

from collections.abc import Sequence
from datetime import timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from mooring.apiclient.credentials import KeyPair


def sign_client(authority: KeyPair, user: str, groups: Sequence[str] = ()) -> KeyPair:
    """A certificate for a user that the authority signs, with the extensions that strict checks require. It begins with the
    authority's, and lasts for a year."""
    issuer = x509.load_pem_x509_certificate(authority.certificate_pem)
    issuer_key = serialization.load_pem_private_key(authority.key_pem, password=None)
    assert isinstance(issuer_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    named = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    begin = issuer.not_valid_before_utc
    certificate = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([*named, x509.NameAttribute(NameOID.COMMON_NAME, user)]))
        .issuer_name(issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(begin + timedelta(days=365))
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    form = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    return KeyPair(certificate.public_bytes(serialization.Encoding.PEM), key.private_bytes(*form))
