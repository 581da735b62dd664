"""TLS 1.3 between two parties that know each other's certificates, and what is wrong when they do not, in one line.

No authority of the system is trusted. The other side's certificate (or the authority that signed it) comes as a file,
so that nobody else can answer for a host, and no client without a known certificate gets as far as a message.
"""

import hashlib
import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from pricdr.alignment.certificates import fingerprint, read_certificate, read_certificates, require_valid
from pricdr.errors import ExchangeError, InputError, ParameterError


@dataclass(frozen=True, kw_only=True)
class Credentials:
    """How one side shows who it is, and how it knows the other. Exactly one of the last two is given."""

    certificate: Path
    key: Path
    peer_certificate: Path | None = None
    """The other side's certificate: no other one will do, whoever signed it."""
    peer_authority: Path | None = None
    """Who must have signed the other side's certificate. A server's must also be for the host that is asked for."""

    def __post_init__(self) -> None:
        """Refuse both or neither: one would be ignored, or anybody let in."""
        if (self.peer_certificate is None) == (self.peer_authority is None):
            raise ParameterError("give the certificate of the other side (--peer-cert) or its authority (--peer-ca)")

    def context(self, *, server: bool) -> ssl.SSLContext:
        """Return the settings of one side: TLS 1.3, a certificate on both sides, and no authority but the one given."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        # A pinned certificate is known by its bytes; the name of a host would say less.
        context.check_hostname = not server and self.peer_authority is not None
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(cadata=self._trusted())
        if self.peer_certificate is not None:
            context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # it need not have signed itself
        if server:
            context.num_tickets = 0  # nothing is resumed: every exchange shows its certificates
        self._load_own(context)
        return context

    def _require_two(self, own: x509.Certificate) -> None:
        """Refuse one key for both sides: whoever has it could be either, or lead our own words back to us."""
        if self.peer_certificate is None:
            return
        if own.public_key() == read_certificate(self.peer_certificate).public_key():
            raise InputError(f"{self.peer_certificate} has our own key: give the other side's certificate")

    def require_peer(self, peer: ssl.SSLSocket) -> None:
        """Refuse a certificate that the pinned one signed: it is not the pinned one."""
        shown = peer.getpeercert(binary_form=True)
        assert shown is not None, "no handshake succeeds without one"
        if self.peer_certificate is None:
            return
        pinned = fingerprint(read_certificate(self.peer_certificate))
        if hashlib.sha256(shown).hexdigest() != pinned:
            raise ExchangeError(f"the other side showed another certificate than {self.peer_certificate}")

    def _trusted(self) -> bytes:
        if self.peer_certificate is not None:
            return read_certificate(self.peer_certificate).public_bytes(Encoding.DER)
        assert self.peer_authority is not None, "checked above"
        return b"".join(one.public_bytes(Encoding.DER) for one in read_certificates(self.peer_authority))

    def _load_own(self, context: ssl.SSLContext) -> None:
        own, *_ = read_certificates(self.certificate)
        require_valid(self.certificate, own)
        self._require_two(own)

        def refuse_passphrase() -> str:
            raise InputError(f"{self.key} is protected by a passphrase: give a key without one, for its owner alone")

        try:
            context.load_cert_chain(self.certificate, self.key, password=refuse_passphrase)
        except ssl.SSLError as error:
            if error.reason == "KEY_VALUES_MISMATCH":
                raise InputError(f"{self.key} is not the key of {self.certificate}") from error
            raise InputError(f"{self.key} holds no usable private key in PEM") from error
        except OSError as error:
            raise InputError(f"cannot read key {self.key}: {error.strerror}") from error


_NOT_TLS: Final = "it does not speak TLS"
_OLD: Final = "it speaks no TLS 1.3, and nothing older will do"
_UNKNOWN: Final = "it does not know our certificate: give it --cert of this side as --peer-cert"
_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it showed no certificate",
    "UNSUPPORTED_PROTOCOL": _OLD,
    "TLSV1_ALERT_PROTOCOL_VERSION": _OLD,
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "HTTP_REQUEST": f"{_NOT_TLS} but plain HTTP",
    "HTTPS_PROXY_REQUEST": f"{_NOT_TLS} but plain HTTP",
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "UNEXPECTED_MESSAGE": _NOT_TLS,
    "TLSV13_ALERT_CERTIFICATE_REQUIRED": _UNKNOWN,
    "TLSV1_ALERT_UNKNOWN_CA": _UNKNOWN,
    "SSLV3_ALERT_BAD_CERTIFICATE": _UNKNOWN,
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": _UNKNOWN,
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": "by its clock our certificate has expired",
    "UNEXPECTED_EOF_WHILE_READING": "it hung up",
}
"""What OpenSSL calls a failure, and what it means here."""


def reason_of(error: OSError) -> str:
    """Return what went wrong with a connection, to follow a colon; ``it`` is the other side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not the one given, or not signed by the authority given ({error.verify_message})"
    if isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return "it hung up"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "", f"TLS failed ({error.reason or 'no reason given'})")
    if isinstance(error, TimeoutError):
        return "it took too long"
    if isinstance(error, socket.gaierror):
        return "there is no such host"
    if isinstance(error, ConnectionResetError | BrokenPipeError | EOFError):
        return "it hung up"
    return error.strerror or "the connection failed"
