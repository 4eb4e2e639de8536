"""Who may ask: the token in a file that nobody else can read."""

from __future__ import annotations

import os
import re
import stat
import struct

from headway.errors import HeadwayError
from headway.files import open_file

__all__ = ["acl_lets_others", "read_token"]

SHORTEST_TOKEN, LONGEST_TOKEN = 16, 4096
"""Characters."""


def read_token(path: str) -> bytes:
    """Return the token in a file that nobody else can read: a line of 16 or more visible ASCII characters.

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
    """Return whether anybody but root and this user may read or write a file.

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
