"""What a driver and those who ask its agent know each other by: made anew for each epoch."""

import secrets
from dataclasses import dataclass, field
from datetime import datetime

SERVER_NAME = "sparkscale-agent"
"""The name of every agent in its certificate, whatever its host: those have none that stays."""


@dataclass(frozen=True)
class Credentials:
    """The credentials of one driver. Agents of earlier drivers do not accept them."""

    token: str = field(repr=False)
    """Whoever shows it may ask the agent, and change what it does."""
    certificate: str = field(repr=False)
    """PEM. Who asks takes the agent for the driver's by it, and it alone."""
    key: str = field(repr=False)
    """PEM, without a password: for the driver only."""


def token() -> str:
    """A token of 256 random bits."""
    return secrets.token_urlsafe(32)


def make(stream: str, epoch: int) -> Credentials:
    """Make the credentials of a new driver.

    The certificate is signed by its own key: it is compared as a whole, so its names are for people
    and for programs that check one, as Prometheus does, and its dates for nobody. They are as wide
    as can be said (RFC 5280, 4.1.2.5), for there is no renewing it while a driver runs, and clocks
    may be wrong.
    """
    # A tenth of a second to import, and one start of a stream in a process at most.
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key = ec.generate_private_key(ec.SECP256R1())
    text = f"sparkscale {stream}, epoch {epoch}"[:64]  # as long as a common name may be
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    return Credentials(
        token=token(),
        certificate=certificate.public_bytes(serialization.Encoding.PEM).decode(),
        key=key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ).decode(),
    )
