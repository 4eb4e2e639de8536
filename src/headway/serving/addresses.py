"""Where to listen, and who may ask: an address as it is written, sockets bound to it, and the token in a file."""

from __future__ import annotations

import errno
import ipaddress
import os
import re
import socket
import stat
import struct
from contextlib import suppress
from dataclasses import dataclass

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = ["DEFAULT", "Address", "acl_lets_others", "listen", "parse_address", "read_token"]

DEFAULT = "127.0.0.1:9777"
SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096
_WRITTEN = "write it like 127.0.0.1:9777, [::1]:9777 or 0.0.0.0:9777"
_ADDRESS = re.compile(
    r"(?:\[(?P<six>[0-9A-Fa-f:.]{2,45}(?:%[\w.-]{1,32})?)\]|(?P<name>[\w.-]{1,253}))?:(?P<port>\d{1,5})"
)


@dataclass(frozen=True, slots=True)
class Address:
    """A host, by name or number, and a port; 0: any that is free."""

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
    """Sockets bound to all that the address stands for.

    ``guarded``: only who has the token is answered. Otherwise an address that other machines can reach is refused.
    Raises HeadwayError.
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


def read_token(path: str) -> bytes:
    """The token in a file that nobody else can read: a line of 16 or more visible ASCII characters.

    Raises HeadwayError.
    """
    how = "umask 077; openssl rand -hex 32 > FILE"
    words = ascii(path)
    with open_file(path, f"a file with a token ({how})") as stream:
        if _others_may_use(stream.fileno()):
            raise HeadwayError(f"{words} can be read or written by others: chmod 600 {words}")
        token = stream.read(LONGEST_TOKEN + 2).strip()
    if not re.fullmatch(rb"[!-~]{%d,%d}" % (SHORTEST_TOKEN, LONGEST_TOKEN), token):
        raise HeadwayError(
            f"{words} has no token: one line of {SHORTEST_TOKEN} to {LONGEST_TOKEN} visible ASCII characters ({how})"
        )
    return token


def _others_may_use(fd: int) -> bool:
    """Whether anybody but root and this user may read or write a file.

    A file with an access control list shows the list's mask as the permissions of its group (acl(5)). systemd lets the
    user of a service read its credentials by such a list.
    """
    mode = os.fstat(fd).st_mode
    if not mode & stat.S_IRWXG or mode & stat.S_IRWXO:
        return bool(mode & stat.S_IRWXO)
    try:
        listed = os.getxattr(fd, "system.posix_acl_access")
    except OSError:
        return True  # there is no list
    return acl_lets_others(listed, os.geteuid())


_ACL_VERSION = 2
_ACL_USER_OBJ, _ACL_USER, _ACL_MASK = 1, 2, 16


def acl_lets_others(listed: bytes, user: int) -> bool:
    """Return whether an access control list permits anything to others than the file's owner, root and this user.

    ``listed``: the extended attribute ``system.posix_acl_access`` (include/uapi/linux/posix_acl_xattr.h).
    """
    if len(listed) % 8 != 4 or struct.unpack_from("<I", listed)[0] != _ACL_VERSION:
        return True
    return any(
        permissions and tag not in (_ACL_USER_OBJ, _ACL_MASK) and not (tag == _ACL_USER and number in (0, user))
        for tag, permissions, number in struct.iter_unpack("<HHI", listed[4:])
    )
