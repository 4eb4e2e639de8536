"""A thin binding to libbpf (1.0 or later), loaded when it is first needed.

Only what headway uses, with libbpf's own names. Every failure is a `BpfError` with the errno and what libbpf said.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import mmap
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ctypes import byref, c_char_p, c_int, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path
from types import TracebackType
from zlib import crc32

from headway.errors import HeadwayError

from . import _messages, relocated
from .kernel_types import KernelTypes
from .unavailable import UnavailableError

__all__ = [
    "UPROBES",
    "BpfError",
    "BpfProgram",
    "Library",
    "Link",
    "Map",
    "Object",
    "ProgramIterator",
    "RingReader",
    "bundled",
    "find_library",
]

SONAME = "libbpf.so.1"
"""The libbpf that headway was written for; its number changes when libbpf drops or changes a function."""


class BpfError(HeadwayError):
    """An operation that libbpf or the kernel refused; ``number`` is the errno, ``log`` what libbpf printed."""

    def __init__(self, what: str, number: int, log: str = "") -> None:
        super().__init__(f"{what}: {os.strerror(number)}" if number else what)
        self.number = number
        self.log = log


UPROBES = Path("/sys/bus/event_source/devices/uprobe/type")
"""Through perf_event_open(2) since Linux 4.17."""

_BATCH = 4096
"""Entries of a hash map read at once; none of its buckets has as many."""

_SIGNATURES: dict[str, tuple[object, list[object]]] = {
    "libbpf_major_version": (c_uint32, []),
    "libbpf_version_string": (c_char_p, []),
    "libbpf_set_print": (c_void_p, [c_void_p]),
    "bpf_object__open_mem": (c_void_p, [c_char_p, c_size_t, c_void_p]),
    "bpf_object__load": (c_int, [c_void_p]),
    "bpf_object__close": (None, [c_void_p]),
    "bpf_object__find_map_by_name": (c_void_p, [c_void_p, c_char_p]),
    "bpf_object__next_program": (c_void_p, [c_void_p, c_void_p]),
    "bpf_map__fd": (c_int, [c_void_p]),
    "bpf_map__set_inner_map_fd": (c_int, [c_void_p, c_int]),
    "bpf_map__value_size": (c_uint32, [c_void_p]),
    "bpf_map__max_entries": (c_uint32, [c_void_p]),
    "bpf_map__set_max_entries": (c_int, [c_void_p, c_uint32]),
    "bpf_map__reuse_fd": (c_int, [c_void_p, c_int]),
    "bpf_map__set_initial_value": (c_int, [c_void_p, c_void_p, c_size_t]),
    "bpf_map__key_size": (c_uint32, [c_void_p]),
    "bpf_map_lookup_batch": (c_int, [c_int, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p, c_void_p]),
    "bpf_map_create": (c_int, [c_uint32, c_char_p, c_uint32, c_uint32, c_uint32, c_void_p]),
    "bpf_map_lookup_elem": (c_int, [c_int, c_void_p, c_void_p]),
    "bpf_map_delete_elem": (c_int, [c_int, c_void_p]),
    "bpf_map_update_elem": (c_int, [c_int, c_void_p, c_void_p, c_uint64]),
    "bpf_map_freeze": (c_int, [c_int]),
    "bpf_program__name": (c_char_p, [c_void_p]),
    "bpf_program__section_name": (c_char_p, [c_void_p]),
    "bpf_program__set_autoload": (c_int, [c_void_p, ctypes.c_bool]),
    "bpf_program__fd": (c_int, [c_void_p]),
    "bpf_program__insns": (c_void_p, [c_void_p]),
    "bpf_program__insn_cnt": (c_size_t, [c_void_p]),
    "bpf_program__set_insns": (c_int, [c_void_p, c_char_p, c_size_t]),
    "libbpf_register_prog_handler": (c_int, [c_char_p, c_int, c_int, c_void_p]),
    "bpf_raw_tracepoint_open": (c_int, [c_char_p, c_int]),
    "bpf_link_create": (c_int, [c_int, c_int, c_int, c_void_p]),
    "bpf_program__attach_uprobe_opts": (c_void_p, [c_void_p, c_int, c_char_p, c_size_t, c_void_p]),
    "bpf_link__destroy": (c_int, [c_void_p]),
    "bpf_enable_stats": (c_int, [c_int]),
    "bpf_iter_create": (c_int, [c_int]),
    "bpf_prog_load": (c_int, [c_int, c_char_p, c_char_p, c_char_p, c_size_t, c_void_p]),
    "bpf_link_get_next_id": (c_int, [c_uint32, c_void_p]),
    "bpf_link_get_fd_by_id": (c_int, [c_uint32]),
    "bpf_obj_get_info_by_fd": (c_int, [c_int, c_void_p, c_void_p]),
    "ring_buffer__new": (c_void_p, [c_int, c_void_p, c_void_p, c_void_p]),
    "ring_buffer__free": (None, [c_void_p]),
    "ring_buffer__consume": (c_int, [c_void_p]),
    "ring_buffer__epoll_fd": (c_int, [c_void_p]),
}


_registered: set[str] = set()
"""The libbpf, by their names, that hand over programs (`relocated`)."""


def bundled() -> Path | None:
    """The libbpf inside the package, which the wheels have; None where headway was built from source."""
    found = Path(__file__).parents[2] / "lib" / SONAME
    return found if found.is_file() else None


def find_library() -> str:
    """The libbpf to load, as dlopen(3) takes it: the one inside the package, else the system's."""
    return str(bundled() or SONAME)


class Library:
    """libbpf itself; ``name``: not what `find_library` finds. Raises UnavailableError: it is missing or too old."""

    def __init__(self, name: str | None = None) -> None:
        name = find_library() if name is None else name
        try:
            self._library = ctypes.CDLL(name, use_errno=True)
        except OSError as error:
            if "/" in name:
                raise UnavailableError(
                    f"the libbpf that came with headway cannot be loaded ({error})",
                    "install headway again (pip install --force-reinstall headway)",
                ) from None
            raise UnavailableError(
                f"{name} is not installed, and eBPF needs it",
                "install libbpf 1.x (Debian, Ubuntu: libbpf1; Fedora: libbpf; Arch: libbpf)",
            ) from None
        try:
            for function, (result, arguments) in _SIGNATURES.items():
                self._declare(function, result, arguments)
        except AttributeError:
            raise UnavailableError(
                f"{name} is too old ({self.version}), and eBPF needs libbpf 1.0 or later", "update it"
            ) from None
        self._library.libbpf_set_print(None)
        if name not in _registered:
            relocated.register(self)
            _registered.add(name)

    def _declare(self, function: str, result: object, arguments: list[object]) -> None:
        entry = getattr(self._library, function)
        entry.restype, entry.argtypes = result, arguments

    @property
    def version(self) -> str:
        """For example ``v1.1``."""
        try:
            self._declare("libbpf_version_string", c_char_p, [])
            return str(self._library.libbpf_version_string().decode())
        except AttributeError:
            return "before 0.6"

    def call(self, function: str, *arguments: object) -> int:
        """Call and return the result, an int or a pointer (0: none)."""
        return getattr(self._library, function)(*arguments) or 0

    def check(self, what: str, function: str, *arguments: object) -> int:
        """Call a function that returns a negative errno, or NULL with errno set, on failure."""
        ctypes.set_errno(0)
        result = self.call(function, *arguments)
        if getattr(self._library, function).restype is c_void_p:
            if not result:
                raise BpfError(what, ctypes.get_errno() or errno.EINVAL)
        elif result < 0:
            raise BpfError(what, -result)
        return result

    def loads(self, instructions: bytes) -> bool:
        """Whether the kernel takes a program of these instructions; it is unloaded at once."""
        socket_filter = 1  # BPF_PROG_TYPE_SOCKET_FILTER
        fd = self.call("bpf_prog_load", socket_filter, b"trial", b"GPL", instructions, len(instructions) // 8, None)
        if fd >= 0:
            os.close(fd)
        return fd >= 0

    def text(self, function: str, *arguments: object) -> str:
        """Call a function that returns a string."""
        return str(getattr(self._library, function)(*arguments).decode())


class Map:
    """A map of an object. Sizes can be set before the object is loaded, the rest works after."""

    def __init__(self, library: Library, handle: int, name: str) -> None:
        self._library, self._handle, self.name = library, handle, name

    @property
    def fd(self) -> int:
        """File descriptor; valid as long as the object."""
        return self._library.call("bpf_map__fd", self._handle)

    @property
    def value_size(self) -> int:
        """Bytes of one value."""
        return self._library.call("bpf_map__value_size", self._handle)

    @property
    def max_entries(self) -> int:
        """How many values there is room for."""
        return self._library.call("bpf_map__max_entries", self._handle)

    @max_entries.setter
    def max_entries(self, entries: int) -> None:
        self._library.check(f"setting the size of {self.name}", "bpf_map__set_max_entries", self._handle, entries)

    def set_initial(self, value: bytes) -> None:
        """The contents of a data section; before loading, of exactly its size."""
        what = f"initialising {self.name}"
        self._library.check(what, "bpf_map__set_initial_value", self._handle, value, len(value))

    def share(self, other: Map) -> None:
        """Be the map of another object, which is loaded, instead of one of its own; before loading."""
        self._library.check(f"sharing {self.name}", "bpf_map__reuse_fd", self._handle, other.fd)

    def put(self, key: int, value: int = 1) -> None:
        """Set an entry of a map from u32 to u32."""
        k, v = c_uint32(key), c_uint32(value)
        self._library.check(f"writing {self.name}", "bpf_map_update_elem", self.fd, byref(k), byref(v), 0)

    def set(self, place: int, value: bytes) -> None:
        """Set an entry of an array; the value has its size."""
        k = c_uint32(place)
        self._library.check(f"writing {self.name}", "bpf_map_update_elem", self.fd, byref(k), value, 0)

    def push(self, value: int) -> None:
        """Put a value on a stack of u32."""
        v = c_uint32(value)
        self._library.check(f"writing {self.name}", "bpf_map_update_elem", self.fd, None, byref(v), 0)

    def get(self, key: bytes) -> bytes | None:
        """An entry of a hash map; None: there is none."""
        value = ctypes.create_string_buffer(self.value_size)
        found = self._library.call("bpf_map_lookup_elem", self.fd, key, value) == 0
        return value.raw if found else None

    def assign(self, key: bytes, value: bytes) -> None:
        """Set an entry of a hash map."""
        self._library.check(f"writing {self.name}", "bpf_map_update_elem", self.fd, key, value, 0)

    def add_array(self, place: int, value_size: int, entries: int) -> mmap.mmap:
        """Make an array, put it into this array of maps, and return its memory. Raises BpfError, OSError."""
        fd = self.new_array(value_size, entries)
        try:
            memory = mmap.mmap(fd, value_size * entries, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
            self.put(place, fd)
            return memory
        finally:
            os.close(fd)

    def new_array(self, value_size: int, entries: int) -> int:
        """Make an array that may be put into this array of maps, and return its descriptor. Raises BpfError."""
        options = _MapOptions(sz=ctypes.sizeof(_MapOptions), map_flags=_MMAPABLE)
        arguments = _ARRAY, self.name.encode()[:15], 4, value_size, entries, byref(options)
        return self._library.check(f"making a part of {self.name}", "bpf_map_create", *arguments)

    def freeze_array(self, fd: int) -> None:
        """Have only programs write an array of this array of maps from now on. It must not be mapped for writing."""
        self._library.check(f"freezing a part of {self.name}", "bpf_map_freeze", fd)

    @contextmanager
    def taking_arrays(self, value_size: int, entries: int) -> Iterator[None]:
        """Have this array of maps take arrays of this size. The object is to be loaded meanwhile."""
        fd = self.new_array(value_size, entries)
        try:
            self._library.check(f"setting the size of {self.name}", "bpf_map__set_inner_map_fd", self._handle, fd)
            yield
        finally:
            os.close(fd)

    def remove(self, key: bytes) -> None:
        """Take an entry out of a hash map, if it is there."""
        self._library.call("bpf_map_delete_elem", self.fd, key)

    def items(self) -> Iterator[tuple[bytes, bytes]]:
        """The entries of a hash map, key and value; those that come and go meanwhile may or may not be among them."""
        keys = ctypes.create_string_buffer(_BATCH * (key := self._library.call("bpf_map__key_size", self._handle)))
        values = ctypes.create_string_buffer(_BATCH * (value := self.value_size))
        at, after = c_uint64(), c_uint64()
        first = True
        while True:
            count = c_uint32(_BATCH)
            start = None if first else byref(at)
            result = self._library.call(
                "bpf_map_lookup_batch", self.fd, start, byref(after), keys, values, byref(count), None
            )
            if result < 0 and result != -errno.ENOENT:
                raise BpfError(f"reading {self.name}", -result)
            all_keys, all_values = keys.raw, values.raw
            for i in range(count.value):
                yield all_keys[i * key : (i + 1) * key], all_values[i * value : (i + 1) * value]
            if result < 0:
                return
            first, at.value = False, after.value

    def map_memory(self) -> mmap.mmap:
        """The values of an array made with BPF_F_MMAPABLE, shared with the kernel."""
        stride = (self.value_size + 7) & ~7
        size = -(-stride * self.max_entries // mmap.PAGESIZE) * mmap.PAGESIZE
        return mmap.mmap(self.fd, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)


class _MapOptions(ctypes.Structure):
    """The head of struct bpf_map_create_opts (libbpf 1.0; later ones only append, and ``sz`` says what is here)."""

    _fields_ = [
        ("sz", c_size_t),
        ("btf_fd", c_uint32),
        ("btf_key_type_id", c_uint32),
        ("btf_value_type_id", c_uint32),
        ("btf_vmlinux_value_type_id", c_uint32),
        ("inner_map_fd", c_uint32),
        ("map_flags", c_uint32),
    ]


_ARRAY, _MMAPABLE = 2, 1 << 10
"""BPF_MAP_TYPE_ARRAY, BPF_F_MMAPABLE."""


class _ProgramInfo(ctypes.Structure):
    """The head of struct bpf_prog_info (include/uapi/linux/bpf.h), as far as recursion_misses."""

    _fields_ = [
        ("type", c_uint32),
        ("id", c_uint32),
        ("before", ctypes.c_uint8 * 184),
        ("run_time_ns", c_uint64),
        ("run_cnt", c_uint64),
        ("recursion_misses", c_uint64),
        ("verified_insns", c_uint32),
        ("attach_btf_obj_id", c_uint32),
        ("attach_btf_id", c_uint32),
        ("padding", c_uint32),
    ]


class _UprobeOptions(ctypes.Structure):
    """The head of struct bpf_uprobe_opts (libbpf.h of 1.0; later ones only append, and ``sz`` says what is here)."""

    _fields_ = [
        ("sz", c_size_t),
        ("ref_ctr_offset", c_size_t),
        ("bpf_cookie", c_uint64),
        ("retprobe", ctypes.c_bool),
        ("func_name", c_char_p),
    ]


class _OpenOptions(ctypes.Structure):
    """The head of struct bpf_object_open_opts (libbpf 1.0; later ones only append, and ``sz`` says what is here)."""

    _fields_ = [
        ("sz", c_size_t),
        ("object_name", c_char_p),
        ("relaxed_maps", ctypes.c_bool),
        ("pin_root_path", c_char_p),
        ("unused", c_uint32),
        ("kconfig", c_char_p),
        ("btf_custom_path", c_char_p),
    ]


class _LinkOptions(ctypes.Structure):
    """The head of struct bpf_link_create_opts (libbpf 1.0), for perf events."""

    _fields_ = [
        ("sz", c_size_t),
        ("flags", c_uint32),
        ("iter_info", c_void_p),
        ("iter_info_len", c_uint32),
        ("target_btf_id", c_uint32),
        ("bpf_cookie", c_uint64),
    ]


_PERF_EVENT, _TRACE_ITER = 41, 28
"""BPF_PERF_EVENT, BPF_TRACE_ITER: what a link attaches to."""
_ENABLE = 0x2400
"""PERF_EVENT_IOC_ENABLE."""


class Link:
    """An attachment of a program; `destroy` undoes it."""

    def __init__(self, destroy: Callable[[], object]) -> None:
        self.destroy = destroy


class BpfProgram:
    """A program of an object."""

    def __init__(self, library: Library, handle: int) -> None:
        self._library, self._handle = library, handle
        self.name = library.text("bpf_program__name", handle)
        self.section = library.text("bpf_program__section_name", handle)
        self.wanted = True
        self.loaded_fd: int | None = None
        """Of the program that was loaded instead of libbpf's; the object closes it."""

    def leave_out(self) -> None:
        """Do not load it with its object."""
        self._library.check(f"leaving out {self.name}", "bpf_program__set_autoload", self._handle, False)
        self.wanted = False

    @property
    def is_relocated(self) -> bool:
        """Whether it is taken from libbpf when it is loaded (`relocated`)."""
        return self.section.partition("/")[0] in relocated.SECTIONS

    @property
    def identity(self) -> tuple[int, tuple[str, str]]:
        """libbpf's handle, and what `relocated.taking` wants to know of it."""
        return self._handle, (self.name, self.section)

    def attach(self) -> Link:
        """Attach where its section says (tp_btf)."""
        return self._attached(f"attaching {self.name}", "bpf_raw_tracepoint_open", None, self.fd)

    def attach_perf_event(self, fd: int, cookie: int = 0) -> Link:
        """Attach to a perf event; the link owns the descriptor from then on. ``cookie``: as for `attach_uprobe`."""
        options = _LinkOptions(sz=ctypes.sizeof(_LinkOptions), bpf_cookie=cookie)
        what = f"attaching {self.name}"
        link = self._library.check(what, "bpf_link_create", self.fd, fd, _PERF_EVENT, byref(options))
        try:
            fcntl.ioctl(fd, _ENABLE, 0)
        except OSError as error:
            os.close(link)
            raise BpfError(what, error.errno or errno.EINVAL) from None

        def destroy() -> None:
            os.close(link)
            os.close(fd)

        return Link(destroy)

    def attach_raw_tracepoint(self, tracepoint: str) -> Link:
        """Attach to a tracepoint; a program may be attached to several."""
        what = f"attaching {self.name} to {tracepoint}"
        return self._attached(what, "bpf_raw_tracepoint_open", tracepoint.encode(), self.fd)

    def _attached(self, what: str, function: str, *arguments: object) -> Link:
        link = self._library.check(what, function, *arguments)
        return Link(lambda: os.close(link))

    def attach_uprobe(
        self, path: str, offset: int, *, ret: bool, cookie: int, pid: int = -1, semaphore: int = 0
    ) -> Link:
        """Attach to an instruction of a file, or (``ret``) to the return from the function that begins there.

        ``cookie``: what bpf_get_attach_cookie returns in the program. ``pid``: in this process only; -1: in all.
        ``semaphore``: the offset in the file of 16 bits that the kernel counts up in each process meanwhile; 0: none.
        Raises BpfError with the errno of perf_event_open(2).
        """
        options = _UprobeOptions(ctypes.sizeof(_UprobeOptions), semaphore, cookie, ret, None)
        what = f"probing {'the return of ' * ret}{path} at {offset:#x}"
        attach = "bpf_program__attach_uprobe_opts"
        link = self._library.check(what, attach, self._handle, pid, os.fsencode(path), offset, byref(options))
        return Link(lambda: self._library.call("bpf_link__destroy", link))

    def iterator(self) -> ProgramIterator:
        """Attach an iterator program. `ProgramIterator.close` detaches it."""
        return ProgramIterator(self._library, self)

    def iterate(self) -> None:
        """Run an iterator program over everything once."""
        iterator = self.iterator()
        try:
            with iterator.running() as fd:
                while os.read(fd, 4096):
                    pass
        finally:
            iterator.close()

    @property
    def fd(self) -> int:
        """File descriptor; valid as long as the object."""
        return self._library.call("bpf_program__fd", self._handle) if self.loaded_fd is None else self.loaded_fd

    def _info(self) -> tuple[_ProgramInfo, int]:
        """What the kernel says of it, and how many bytes of that it filled."""
        info = _ProgramInfo()
        length = c_uint32(ctypes.sizeof(info))
        failed = self._library.call("bpf_obj_get_info_by_fd", self.fd, byref(info), byref(length)) < 0
        return info, 0 if failed else length.value

    @property
    def id(self) -> int:
        """The kernel's number of it."""
        return int(self._info()[0].id)

    def misses(self) -> int:
        """How often the kernel skipped it because it was running already on that processor (since 5.12)."""
        info, length = self._info()
        return int(info.recursion_misses) if length >= _ProgramInfo.verified_insns.offset else 0

    @property
    def tells_of_misses(self) -> bool:
        """Whether the kernel says how often it skipped it."""
        return self._info()[1] >= _ProgramInfo.verified_insns.offset

    def run_time(self) -> tuple[int, int]:
        """Time in it, ns, and how often it ran, while the kernel kept statistics (`Object.statistics`)."""
        info, length = self._info()
        return (int(info.run_time_ns), int(info.run_cnt)) if length >= _ProgramInfo.recursion_misses.offset else (0, 0)


class ProgramIterator:
    """An iterator program that is attached, and runs as often as is wanted."""

    def __init__(self, library: Library, program: BpfProgram) -> None:
        self._library, self._name = library, program.name
        self._link = library.check(f"attaching {self._name}", "bpf_link_create", program.fd, 0, _TRACE_ITER, None)

    @contextmanager
    def running(self) -> Iterator[int]:
        """Run it over everything once: yield the descriptor from which what it writes is read. Reading makes it run."""
        fd = self._library.check(f"running {self._name}", "bpf_iter_create", self._link)
        try:
            yield fd
        finally:
            os.close(fd)

    def close(self) -> None:
        """Detach it; may be called again."""
        if self._link >= 0:
            os.close(self._link)
            self._link = -1


class RingReader:
    """Takes records out of a BPF ring buffer and hands each to a C function (ring_buffer_sample_fn)."""

    def __init__(self, library: Library, ring: Map, function: int, context: int) -> None:
        self._library = library
        what = f"opening {ring.name}"
        self._handle = library.check(what, "ring_buffer__new", ring.fd, function, context, None)

    def fileno(self) -> int:
        """Readable when the programs asked for the reader."""
        return self._library.call("ring_buffer__epoll_fd", self._handle)

    def consume(self) -> int:
        """Hand over all there is; how many records."""
        return self._library.check("reading the ring buffer", "ring_buffer__consume", self._handle)

    def close(self) -> None:
        """Free it; may be called again."""
        if self._handle:
            self._library.call("ring_buffer__free", self._handle)
            self._handle = 0


class Object:
    """An eBPF object: open it, set it up, load it, attach its programs; closing detaches and frees everything."""

    def __init__(self, library: Library, image: bytes, kernel_types: KernelTypes | None = None) -> None:
        """Open it. ``kernel_types``: of the running kernel (BTF); where they are given, libbpf needs not read them."""
        self.library = library
        self.checksum = f"{crc32(image):08x}-{len(image):x}"
        """Tells it from another object."""
        self._types_fd = -1 if kernel_types is None else relocated.types_for(image, kernel_types)
        path = None if self._types_fd < 0 else f"/proc/self/fd/{self._types_fd}".encode()
        options = _OpenOptions(sz=ctypes.sizeof(_OpenOptions), btf_custom_path=path)
        what = "opening the eBPF object"
        try:
            self._handle = library.check(what, "bpf_object__open_mem", image, len(image), byref(options))
        except BpfError:
            self._forget_types()
            raise
        self._links: list[Link] = []
        self.programs: dict[str, BpfProgram] = {}
        handle = 0
        while handle := library.call("bpf_object__next_program", self._handle, handle or None):
            program = BpfProgram(library, handle)
            self.programs[program.name] = program

    def __enter__(self) -> Object:
        """Nothing; closed on leaving."""
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        """Detach and free."""
        self.close()

    def map(self, name: str) -> Map:
        """A map by its name; data sections by the section's."""
        handle = self.library.check(f"finding {name}", "bpf_object__find_map_by_name", self._handle, name.encode())
        return Map(self.library, handle, name)

    def load(self) -> None:
        """Verify and load what is wanted. Raises BpfError with libbpf's and the verifier's words as ``log``."""
        self._printed(self._load)

    def _load(self) -> None:
        ours = dict(each.identity for each in self.programs.values() if each.wanted and each.is_relocated)
        with relocated.taking(self.library, ours) as taken:
            self.library.check("loading the eBPF programs", "bpf_object__load", self._handle)
        self._forget_types()
        try:
            loaded = relocated.load(self.library, taken)
        except relocated.RefusedProgramError as refused:
            raise BpfError("loading the eBPF programs", refused.number, refused.told()) from None
        for name, fd in loaded.items():
            self.programs[name].loaded_fd = fd

    def attach(self, program: BpfProgram) -> Link:
        """Attach a program until this object is closed. Returns a link for `detach_link`."""
        self._links.append(program.attach())
        return self._links[-1]

    def attach_raw_tracepoint(self, program: BpfProgram, tracepoint: str) -> Link:
        """Attach a program to a tracepoint until this object is closed. Returns a link for `detach_link`."""
        self._links.append(program.attach_raw_tracepoint(tracepoint))
        return self._links[-1]

    def attach_perf_event(self, program: BpfProgram, fd: int, cookie: int = 0) -> Link:
        """Attach a program to a perf event until this object is closed. Returns a link for `detach_link`."""
        self._links.append(program.attach_perf_event(fd, cookie))
        return self._links[-1]

    def detach_link(self, link: Link) -> None:
        """Undo one attachment; nothing happens where that was done before."""
        if link in self._links:
            self._links.remove(link)
            link.destroy()

    @contextmanager
    def statistics(self) -> Iterator[None]:
        """Have the kernel count how often and how long programs run meanwhile, where it can and may (since 5.8)."""
        fd = self.library.call("bpf_enable_stats", 0)
        try:
            yield
        finally:
            if fd >= 0:
                os.close(fd)

    def attach_uprobe(
        self,
        program: BpfProgram,
        path: str,
        offset: int,
        *,
        ret: bool,
        cookie: int,
        pid: int = -1,
        semaphore: int = 0,
    ) -> Link:
        """Attach a program to a place in a file until this object is closed; see `BpfProgram.attach_uprobe`.

        Returns a link for `detach_link`.
        """
        if not UPROBES.exists():
            raise BpfError(
                f"this kernel has no uprobes ({UPROBES}; CONFIG_UPROBE_EVENTS), which marked functions and probes "
                "need: measure without --noneffective and --task",
                0,
            )
        link = program.attach_uprobe(path, offset, ret=ret, cookie=cookie, pid=pid, semaphore=semaphore)
        self._links.append(link)
        return self._links[-1]

    def detach(self) -> None:
        """Detach every program."""
        while self._links:
            self._links.pop().destroy()

    def close(self) -> None:
        """Detach and free everything; may be called again."""
        self.detach()
        for program in self.programs.values():
            if program.loaded_fd is not None:
                os.close(program.loaded_fd)
                program.loaded_fd = None
        if self._handle:
            self.library.call("bpf_object__close", self._handle)
            self._handle = 0
        self._forget_types()

    def _forget_types(self) -> None:
        if self._types_fd >= 0:
            os.close(self._types_fd)
            self._types_fd = -1

    def _printed(self, action: Callable[[], object]) -> None:
        """Run with libbpf's messages kept for the error that may come of it."""
        _messages.take()
        self.library.call("libbpf_set_print", _messages.keeper())
        try:
            action()
        except BpfError as error:
            error.log = _messages.take() + error.log
            raise
        finally:
            self.library.call("libbpf_set_print", None)
