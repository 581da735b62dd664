"""TLS 1.3 between two parties that know each other's certificates, and one-line explanations of what went wrong.

The system's certificate authorities are not trusted. The other side's certificate (or the authority that signed it) is
given as a file, so that nobody else can impersonate a host, and a client without a known certificate cannot send a
message.
"""

import hashlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding

from pricdr.alignment.certificates import fingerprint, read_certificate, read_certificates, require_valid
from pricdr.errors import ExchangeError, InputError, ParameterError
from pricdr.files import require_private_file


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """How one side identifies itself and recognises the other. Exactly one of the last two fields is given."""

    certificate: Path
    key: Path
    peer_certificate: Path | None = None
    """The other side's certificate: no other is accepted, whoever signed it."""
    peer_authority: Path | None = None
    """The authority that must have signed the other side's certificate. A server's must also name its host."""

    def __post_init__(self) -> None:
        """Refuse both or neither: one would be ignored, or anyone would be accepted."""
        if (self.peer_certificate is None) == (self.peer_authority is None):
            raise ParameterError(
                "give the other side's certificate (--peer-cert) or its authority (--peer-ca), not both"
            )

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Return the TLS settings of one side: TLS 1.3, certificates on both sides, only the given one trusted."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # A pinned certificate is compared byte for byte, so checking the host name would add nothing.
        context.check_hostname = not server and self.peer_authority is not None
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(cadata=self._trusted())
        except ssl.SSLError as error:  # OpenSSL is stricter than what has read the file so far
            raise InputError(
                f"{self.peer_certificate or self.peer_authority} has a certificate that OpenSSL cannot use"
            ) from error
        if self.peer_certificate is not None:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not be self-signed
        if server:
            context.num_tickets = 0  # no session resumption: every connection verifies certificates
        self._load_own(context)
        return context

    def _require_distinct_keys(self, own: x509.Certificate) -> None:
        """Refuse one key for both sides: its holder could pose as either, or send our own messages back to us."""
        if self.peer_certificate is None:
            return
        try:
            same = own.public_key() == read_certificate(self.peer_certificate).public_key()
        except (UnsupportedAlgorithm, ValueError) as error:
            raise InputError(
                f"{self.certificate} or {self.peer_certificate} has a key that is not supported"
            ) from error
        if same:
            raise InputError(f"{self.peer_certificate} has our own key: give the other side's certificate")

    def require_peer(self, peer: ssl.SSLSocket) -> None:
        """Refuse a certificate other than the pinned one; OpenSSL would also accept one that the pinned one signed."""
        certificate = peer.getpeercert(binary_form=True)
        assert certificate is not None, "no handshake succeeds without one"
        if self.peer_certificate is None:
            return
        pinned = fingerprint(read_certificate(self.peer_certificate))
        if hashlib.sha256(certificate).hexdigest() != pinned:
            raise ExchangeError(f"the other side presented a certificate other than {self.peer_certificate}")

    def _trusted(self) -> bytes:
        if self.peer_certificate is not None:
            return read_certificate(self.peer_certificate).public_bytes(Encoding.DER)
        assert self.peer_authority is not None, "checked above"
        return b"".join(authority.public_bytes(Encoding.DER) for authority in read_certificates(self.peer_authority))

    def _load_own(self, context: ssl.SSLContext) -> None:
        own, *_ = read_certificates(self.certificate)
        require_valid(self.certificate, own)
        self._require_distinct_keys(own)

        def refuse_passphrase() -> str:
            raise InputError(f"{self.key} is encrypted: give a key without a passphrase, readable only by you")

        try:
            context.load_cert_chain(self.certificate, self.key, password=refuse_passphrase)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise InputError(f"{self.key} is not the key of {self.certificate}") from error
            raise InputError(f"{self.key} does not contain a usable PEM private key") from error
        except OSError as error:
            raise InputError(f"cannot read key {self.key}: {error.strerror}") from error
        require_private_file(self.key)


_NOT_TLS: Final = "it does not speak TLS"
_OLD: Final = "it does not speak TLS 1.3, and older versions are not accepted"
_UNKNOWN: Final = "it does not accept our certificate: it needs this side's --cert as its --peer-cert"
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it did not present a certificate",
    "UNSUPPORTED_PROTOCOL": _OLD,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": f"{_NOT_TLS}, but plain HTTP",
    "HTTPS_PROXY_REQUEST": f"{_NOT_TLS}, but plain HTTP",
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "UNEXPECTED_MESSAGE": _NOT_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _UNKNOWN,
    "TLSV1_ALERT_UNKNOWN_CA": _UNKNOWN,
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNKNOWN,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNKNOWN,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "it says that our certificate has expired: check the clocks of both machines",
    "UNEXPECTED_EOF_WHILE_READING": "it hung up",
}
"""OpenSSL's names of failures, and what they mean here."""


def reason_of(error: OSError) -> str:
    """Return what went wrong with a connection, as text to follow a colon; "it" is the other side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return (
            f"its certificate is not the expected one or not signed by the expected authority ({error.verify_message})"
        )
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "it hung up"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", f"TLS failed ({error.reason or 'no reason given'})")
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, socket.gaierror):
        return "no such host"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "it hung up"
    return error.strerror or "the connection failed"
