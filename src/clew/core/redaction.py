"""Addresses of databases without the passwords in them: for errors, logs and whatever people see. Pure."""

import re

HIDDEN = "…"
SECRET_OPTION = re.compile(r"(pass\w*|secret|\w*_key|sslpassword)\s*=", re.IGNORECASE)
SCHEME = re.compile(r"[A-Za-z][\w+.-]*:/+|postgres(?:ql)?:")


def without_password(address: str) -> str:
    """An address that may be shown, of whatever form: a URL, libpq's keywords and values, or a mistyped one.

    More is hidden rather than less: where a password ends cannot be known if its signs are not escaped.
    """
    option = SECRET_OPTION.search(address)
    if option is not None:
        address = f"{address[: option.end()]}{HIDDEN}"
    login, at, place = address.rpartition("@")
    if not at:
        return address
    scheme = SCHEME.match(login)
    start = scheme.end() if scheme is not None else 0
    user, colon, _ = login[start:].partition(":")
    return f"{login[:start]}{user}{colon}{HIDDEN if colon else ''}@{place}"
