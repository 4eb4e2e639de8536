"""Take programs from libbpf when it has relocated them, and have the kernel verify several at the same time.

libbpf loads the programs of an object one after the other, although the kernel can verify them at the same time. So
a handler of ours (libbpf_register_prog_handler) takes over each program that libbpf is about to load, and gives it an
empty one instead. The programs are then loaded by as many threads as there are processors, the longest first.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Mapping, Sequence
from ctypes import c_char_p, c_int, c_long, c_size_t, c_uint32, c_void_p
from threading import Lock, Thread
from typing import Protocol

from headway.dataclass import dataclass
from headway.exhaustion import starts

from . import _btf
from .kernel_types import KernelTypes, types_of_kernel

__all__ = [
    "SECTIONS",
    "Caller",
    "RefusedProgramError",
    "RelocatedProgram",
    "learn_hooks",
    "load",
    "register",
    "taking",
    "types_for",
]

_TYPEDEF, _FUNCTION = 8, 12
"""BTF_KIND_TYPEDEF, BTF_KIND_FUNC."""
_RAW_TRACEPOINT, _PERF_EVENT, _TRACING = 17, 7, 26
"""BPF_PROG_TYPE_RAW_TRACEPOINT and so on."""
_TRACE_RAW_TP, _TRACE_ITER = 23, 28
"""BPF_TRACE_RAW_TP, BPF_TRACE_ITER: the types of attachment."""
_LOG_BYTES = 1 << 24
_INSTRUCTION = 8
_BTF_BEGINNING = struct.pack("=HBBI", 0xEB9F, 1, 0, 24)
"""The beginning of an object's type information: magic number, version, flags, length of the head."""
_EMPTY = bytes((0xB7, 0, 0, 0, 0, 0, 0, 0, 0x95, 0, 0, 0, 0, 0, 0, 0))
"""r0 = 0; exit."""

SECTIONS: Mapping[str, tuple[int, int, int, bytes]] = {
    "tp_btf": (_TRACING, _TRACE_RAW_TP, _TYPEDEF, b"btf_trace_"),
    "iter": (_TRACING, _TRACE_ITER, _FUNCTION, b"bpf_iter_"),
    "raw_tp": (_RAW_TRACEPOINT, 0, 0, b""),
    "perf_event": (_PERF_EVENT, 0, 0, b""),
}
"""What is taken from libbpf, by the first word of the section: the type of the program and of its attachment, and the
kind and the first letters of what the kernel's BTF has for the hook."""


class _LoadOptions(ctypes.Structure):
    """The head of struct bpf_prog_load_opts (libbpf 1.0; later ones only append, and ``sz`` says what is here)."""

    _fields_ = [
        ("sz", c_size_t),
        ("attempts", c_int),
        ("expected_attach_type", c_int),
        ("prog_btf_fd", c_uint32),
        ("prog_flags", c_uint32),
        ("prog_ifindex", c_uint32),
        ("kern_version", c_uint32),
        ("attach_btf_id", c_uint32),
        ("attach_prog_fd", c_uint32),
        ("attach_btf_obj_fd", c_uint32),
        ("fd_array", c_void_p),
        ("func_info", c_void_p),
        ("func_info_cnt", c_uint32),
        ("func_info_rec_size", c_uint32),
        ("line_info", c_void_p),
        ("line_info_cnt", c_uint32),
        ("line_info_rec_size", c_uint32),
        ("log_level", c_uint32),
        ("log_size", c_uint32),
        ("log_buf", c_void_p),
    ]


_PREPARE = ctypes.CFUNCTYPE(c_int, c_void_p, ctypes.POINTER(_LoadOptions), c_long)


class _HandlerOptions(ctypes.Structure):
    """struct libbpf_prog_handler_opts."""

    _fields_ = [
        ("sz", c_size_t),
        ("cookie", c_long),
        ("setup", c_void_p),
        ("prepare_load", _PREPARE),
        ("attach", c_void_p),
    ]


class Caller(Protocol):
    """What calls libbpf (`libbpf.Library`)."""

    def call(self, function: str, *arguments: object) -> int:
        """Call and return the result."""
        ...


@dataclass(frozen=True, slots=True)
class RelocatedProgram:
    """A program as the kernel is to get it."""

    name: str
    section: str
    instructions: bytes
    btf_fd: int
    """Of the object's types; valid as long as the object."""
    functions: tuple[bytes, int]
    """Which types its functions have (bpf_func_info), and the size of a record."""
    lines: tuple[bytes, int]
    """The lines of its source (bpf_line_info), likewise: shown where it is refused."""


class RefusedProgramError(Exception):
    """The kernel refuses a program: its name, the errno, and the verifier's log."""

    def __init__(self, name: str, number: int, log: str) -> None:
        super().__init__(name)
        self.name, self.number, self.log = name, number, log

    def told(self) -> str:
        """Return it in libbpf's words."""
        head = f"libbpf: prog '{self.name}': "
        said = f"{head}-- BEGIN PROG LOAD LOG --\n{self.log}-- END PROG LOAD LOG --\n" if self.log else ""
        return f"{head}BPF program load failed: {os.strerror(self.number)}\n{said}"


_taking: dict[int, tuple[Caller, str, str, list[RelocatedProgram]]] = {}
"""The programs that are to be taken from libbpf, by its handles: who calls, name, section, and where they are put."""


def _take(handle: int, options: ctypes._Pointer[_LoadOptions], cookie: int) -> int:
    """Take over one program. libbpf calls this just before it loads it."""
    del cookie
    if handle not in _taking:
        return -errno.EINVAL
    caller, name, section, taken = _taking[handle]
    given = options.contents
    count = caller.call("bpf_program__insn_cnt", handle)
    functions = ctypes.string_at(given.func_info, given.func_info_cnt * given.func_info_rec_size)
    lines = ctypes.string_at(given.line_info, given.line_info_cnt * given.line_info_rec_size)
    taken.append(
        RelocatedProgram(
            name,
            section,
            ctypes.string_at(caller.call("bpf_program__insns", handle), count * _INSTRUCTION),
            given.prog_btf_fd,
            (functions, given.func_info_rec_size),
            (lines, given.line_info_rec_size),
        )
    )
    given.func_info_cnt = given.line_info_cnt = given.prog_btf_fd = 0
    return caller.call("bpf_program__set_insns", handle, _EMPTY, len(_EMPTY) // _INSTRUCTION)


_TAKE = _PREPARE(_take)


def register(caller: Caller) -> None:
    """Have libbpf hand over the programs of `SECTIONS`; once for each libbpf that is loaded."""
    options = _HandlerOptions(ctypes.sizeof(_HandlerOptions), 0, None, _TAKE, None)
    for word in SECTIONS:
        section = word.encode() + (b"" if word == "perf_event" else b"+")
        caller.call("libbpf_register_prog_handler", section, _RAW_TRACEPOINT, 0, ctypes.byref(options))


class taking:  # noqa: N801 - a context manager, named as one
    """Take these programs from libbpf meanwhile. ``wanted``: name and section, by libbpf's handle."""

    def __init__(self, caller: Caller, wanted: Mapping[int, tuple[str, str]]) -> None:
        self._caller, self._wanted = caller, wanted
        self._taken: list[RelocatedProgram] = []

    def __enter__(self) -> list[RelocatedProgram]:
        """Begin. Return the list that they are put into."""
        for handle, (name, section) in self._wanted.items():
            _taking[handle] = (self._caller, name, section, self._taken)
        return self._taken

    def __exit__(self, *_: object) -> None:
        """End."""
        for handle in self._wanted:
            _taking.pop(handle, None)


_hooks: dict[bytes, Mapping[str, int]] = {}


def learn_hooks(types: KernelTypes) -> Mapping[str, int]:
    """Remember what programs can be attached to. Return the tracepoints, with the numbers of their types.

    ``types``: the running kernel's type information.
    """
    for _, _, kind, first in SECTIONS.values():
        if first:
            _hooks[first] = _btf.find(types, kind, first)
    return _hooks[SECTIONS["tp_btf"][3]]


def types_for(image: bytes, kernel_types: KernelTypes) -> int:
    """Return a file with those types of the kernel by which libbpf relocates an object; -1: let it take all of them.

    For each type of the object libbpf looks at the names of all types of the kernel, and of its modules.
    ``kernel_types``: the running kernel's type information.
    """
    try:
        types = _btf.reduced(kernel_types, image[image.index(_BTF_BEGINNING) :])
    except ValueError:
        return -1
    try:
        fd = os.memfd_create("types", os.MFD_CLOEXEC)
    except OSError:
        return -1
    try:
        with open(fd, "wb", closefd=False) as file:
            file.write(types)
    except OSError:
        os.close(fd)
        return -1
    return fd


def _hook(section: str) -> int:
    """Return the number of the type in the kernel that a program is attached to; 0: it needs none, or there is none."""
    word, _, hook = section.partition("/")
    first = SECTIONS[word][3]
    if not first:
        return 0
    if first not in _hooks:
        learn_hooks(types_of_kernel())
    return _hooks[first].get(hook, 0)


def load(caller: Caller, programs: Sequence[RelocatedProgram]) -> dict[str, int]:
    """Have the kernel verify and load programs. Return their descriptors by name.

    Raises RefusedProgramError for the first that is refused; then none is left loaded.
    """
    untyped = next((program for program in programs if not program.functions[0]), None)
    if untyped is not None:  # libbpf had no memory to try whether the kernel takes types; verifying would take minutes
        raise RefusedProgramError(untyped.name, errno.ENOMEM, "")
    waiting = sorted(programs, key=lambda program: len(program.instructions))
    lock = Lock()
    loaded: dict[str, int] = {}
    refused: list[RelocatedProgram] = []

    def work() -> None:
        while True:
            with lock:
                if refused or not waiting:
                    return
                program = waiting.pop()
            fd = _load(caller, program)
            with lock:
                if fd < 0:
                    refused.append(program)
                else:
                    loaded[program.name] = fd

    most = min(len(os.sched_getaffinity(0)), len(programs)) - 1
    threads = [thread for thread in (Thread(target=work) for _ in range(most)) if starts(thread)]
    complete = False
    try:
        work()
        complete = True
    finally:
        for thread in threads:
            thread.join()
        if refused or not complete:
            for fd in loaded.values():
                os.close(fd)
    if not refused:
        return loaded
    first = min(refused, key=programs.index)
    log = ctypes.create_string_buffer(_LOG_BYTES)
    fd = _load(caller, first, log)
    if fd >= 0:
        os.close(fd)
    raise RefusedProgramError(first.name, -fd if fd < 0 else errno.EAGAIN, log.value.decode(errors="replace"))


def _load(caller: Caller, program: RelocatedProgram, log: ctypes.Array[ctypes.c_char] | None = None) -> int:
    """Load a program; return its descriptor, or -errno. ``log``: for the words of the verifier."""
    kind, attachment, *_ = SECTIONS[program.section.partition("/")[0]]
    options = _LoadOptions(
        sz=ctypes.sizeof(_LoadOptions), expected_attach_type=attachment, attach_btf_id=_hook(program.section)
    )
    functions, size = program.functions
    if functions:
        options.prog_btf_fd = program.btf_fd
        options.func_info = ctypes.cast(c_char_p(functions), c_void_p)
        options.func_info_rec_size, options.func_info_cnt = size, len(functions) // size
    if log is not None:
        lines, size = program.lines
        if functions and lines:
            options.line_info = ctypes.cast(c_char_p(lines), c_void_p)
            options.line_info_rec_size, options.line_info_cnt = size, len(lines) // size
        options.log_level, options.log_size, options.log_buf = 1, len(log), ctypes.addressof(log)
    code, count = program.instructions, len(program.instructions) // _INSTRUCTION
    return caller.call(
        "bpf_prog_load", kind, program.name.encode()[:15], b"Dual BSD/GPL", code, count, ctypes.byref(options)
    )
