"""Where to listen: an address as it is written, and sockets bound to it."""

from __future__ import annotations

import errno
import ipaddress
import re
import socket
from contextlib import suppress
from dataclasses import dataclass

from headway.errors import HeadwayError

__all__ = ["DEFAULT", "Address", "listen", "parse_address"]

DEFAULT = "127.0.0.1:9777"
_WRITTEN = "write it like 127.0.0.1:9777, [::1]:9777 or 0.0.0.0:9777"
_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?)\]|(?P<name>[\w.-]{1,253}))?:(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port; 0 is any free port."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: str) -> Address:
    """``HOST:PORT``, ``[IPV6]:PORT``, or ``:PORT`` for every address there is. Raises HeadwayError."""
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise HeadwayError(f"{text!a} is no address to listen on: {_WRITTEN}")
    port = int(found["port"])
    if port > 65535:
        raise HeadwayError(f"{port} is no port: they go up to 65535")
    return Address(found["six"] or found["name"] or "::", port)


def listen(address: Address, *, guarded: bool) -> list[socket.socket]:
    """Return sockets bound to all addresses that the address stands for.

    ``guarded``: only requests with the token are answered. Otherwise an address that other machines can reach is
    refused. Raises HeadwayError.
    """
    found = _resolve(address)
    if not guarded and (open_to_all := [host for host in found if not ipaddress.ip_address(_bare(host)).is_loopback]):
        raise HeadwayError(
            f"{open_to_all[0]} can be reached from other machines, which may then read what runs here: give "
            "--token-file FILE (umask 077; openssl rand -hex 32 > FILE), or listen on 127.0.0.1"
        )
    sockets: list[socket.socket] = []
    port, refused = address.port, None
    for host, (family, where) in found.items():
        try:
            one = _bound(family, (where[0], port, *where[2:]), both=address.host == "::")
        except OSError as error:
            if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT) or len(found) == 1:
                for other in sockets:
                    other.close()
                raise _explain(error, Address(host, port)) from None
            refused = _explain(error, Address(host, port))
        else:
            sockets.append(one)
            port = one.getsockname()[1]
    if not sockets:
        raise refused or HeadwayError(f"{address} cannot be listened on")
    return sockets


def _resolve(address: Address) -> dict[str, tuple[socket.AddressFamily, tuple[object, ...]]]:
    try:
        answers = socket.getaddrinfo(
            address.host, address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "no name"
        raise HeadwayError(f"{ascii(address.host)[1:-1]} is no host that can be found ({why}): {_WRITTEN}") from None
    return {str(where[0]): (family, where) for family, _, _, _, where in answers}


def _bare(host: str) -> str:
    return host.partition("%")[0]


def _bound(family: socket.AddressFamily, where: tuple[object, ...], *, both: bool) -> socket.socket:
    one = socket.socket(family, socket.SOCK_STREAM)
    try:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            with suppress(OSError):
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, not both)
        one.bind(where)
        one.listen(128)
        one.setblocking(False)
    except BaseException:
        one.close()
        raise
    return one


def _explain(error: OSError, address: Address) -> HeadwayError:
    if error.errno == errno.EADDRINUSE:
        return HeadwayError(f"{address} is in use (ss -ltnp tells by whom): give another with --listen HOST:PORT")
    if error.errno in (errno.EACCES, errno.EPERM):
        return HeadwayError(f"{address} may not be listened on by this user: give a port from 1024 up")
    if error.errno == errno.EADDRNOTAVAIL:
        return HeadwayError(f"{address} is no address of this machine: ip address lists those that are")
    return HeadwayError(f"{address} cannot be listened on ({error.strerror}): give another with --listen HOST:PORT")
