"""Security headers: a browser may not run scripts, load from elsewhere, frame, sniff, send a referrer or cache."""

from typing import Final, TypeAlias

Headers: TypeAlias = list[tuple[bytes, bytes]]
_POLICY: Final = (
    "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ALWAYS: Final = (
    (b"content-security-policy", _POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_STRICT_TRANSPORT: Final = (b"strict-transport-security", b"max-age=31536000")


def security_headers(*, tls: bool) -> Headers:
    """Return the headers of every response; with TLS they also tell browsers never to come back without it."""
    return [*_ALWAYS, *([_STRICT_TRANSPORT] if tls else [])]
