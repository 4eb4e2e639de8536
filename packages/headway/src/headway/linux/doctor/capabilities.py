"""What this machine and this user can measure, what not, why, and what would change it.

Each capability is probed on its own: by reading a file below `System.root`, or by asking the kernel for something and
returning it at once. No probe raises, changes anything or leaves anything open. A probe looks for the feature itself,
not for a version of the kernel.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import errno
import gzip
import os
import platform
import re
import shutil
import signal
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path

from headway.dataclass import dataclass
from headway.errors import HeadwayError
from headway.linux import privileges
from headway.linux.bpf.programs.libbpf import bundled, find_library
from headway.linux.perf import perf_event as perf
from headway.linux.perf.counters import default_set
from headway.linux.perf.events import EventError
from headway.linux.perf.trace_units import trace_unit, why_no_unit
from headway.linux.procfs.ids import in_user_namespace, pid_namespace
from headway.linux.procfs.mounts import Mount, parse_mounts
from headway.linux.procfs.status import status
from headway.linux.time_namespace import left, shift_of
from headway.system_call import system_call

__all__ = [
    "BPF_NEEDS",
    "FULL_SHAPE",
    "OPTIONAL_TRACEPOINTS",
    "TRACEPOINTS",
    "USUAL_SHAPE",
    "Capability",
    "Kernel",
    "System",
    "bpf_verdict",
    "capabilities",
]

TRACEPOINTS = (
    "sched_switch",
    "sched_wakeup",
    "sched_wakeup_new",
    "sched_process_fork",
    "sched_process_exec",
    "sched_process_exit",
    "sched_process_free",
    "sys_enter",
    "sys_exit",
    "irq_handler_entry",
    "irq_handler_exit",
    "softirq_entry",
    "softirq_exit",
)
"""The tracepoints that the eBPF source needs to account for all time."""

OPTIONAL_TRACEPOINTS: Mapping[str, Sequence[str]] = {
    "x86_64": ("page_fault_user", "page_fault_kernel", "local_timer_entry", "reschedule_entry", "cpu_idle"),
    "aarch64": ("ipi_entry", "ipi_exit", "cpu_idle"),
}
"""The tracepoints that distinguish further states, by architecture."""

BPF_NEEDS = (
    "kernel",
    "eBPF object",
    "libbpf",
    "BTF",
    "privileges",
    "bpf system call",
    "lockdown",
    "tracepoints",
    "ring buffer",
    "task storage",
    "time namespace",
    "eBPF programs",
)
"""The capabilities that the eBPF source needs, in the order in which a missing one is reported."""

ARCHITECTURES = ("x86_64", "aarch64")

USUAL_SHAPE = "stat -p"
"""The shape in which the eBPF programs are loaded for ``headway stat`` without further options."""
FULL_SHAPE = "stat -v"
"""That with all that the report can show: what the kernel takes in it, it takes in the usual one."""

_CYCLES = perf.Event("cycles", perf.HARDWARE, 0)
_CYCLES_OF_USER_CODE = replace(_CYCLES, exclude_kernel=True, exclude_hv=True)
_BPF_CALLS = {"x86_64": 321, "aarch64": 280}
_SUDO = "sudo $(command -v headway) …"


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that can be measured, or that measuring needs."""

    name: str
    available: bool
    why: str
    """What was found, in one clause."""
    remedy: str | None = None
    """A command or step that would make it available; None: nothing needs to be done, or nothing can."""


class Kernel:
    """The questions that only the running kernel can answer. Tests replace this class."""

    def release(self) -> str:
        """Return the kernel's release, as ``uname -r`` prints it."""
        return platform.release()

    def machine(self) -> str:
        """Return the architecture, as ``uname -m`` prints it."""
        return platform.machine()

    def libbpf(self) -> tuple[int, int] | None:
        """Return the version of the libbpf that would be loaded.

        None: there is no libbpf. (0, 0): it is older than 0.6, which has no function for its version.
        """
        for name in (find_library(), "libbpf.so.0"):
            try:
                library = ctypes.CDLL(name)
            except OSError:
                continue
            try:
                return library.libbpf_major_version(), library.libbpf_minor_version()
            except AttributeError:
                return 0, 0
        return None

    def library(self, name: str) -> bool:
        """Return whether a shared library can be loaded."""
        try:
            ctypes.CDLL(name)
        except OSError:
            return False
        return True

    def program(self, name: str) -> bool:
        """Return whether a program is in the search path."""
        return shutil.which(name) is not None

    def load_programs(self, shapes: Sequence[str], told: Callable[[str, int], None]) -> dict[str, str | None]:
        """Load the eBPF programs in these shapes, and unload them.

        ``told`` is called with the name of each shape, and the number of those before it, before it is tried. Returns,
        by shape, why it is refused, or None. Raises HeadwayError if no shape can be tried.
        """
        from headway.linux.bpf.programs.libbpf import Library
        from headway.linux.bpf.programs.loading import SHAPES, Features, files_as_allowed, trial
        from headway.linux.bpf.programs.refusals import RefusedError

        library = Library()
        with files_as_allowed():
            features = Features.probe(library)
        found: dict[str, str | None] = {}
        for number, name in enumerate(shapes):
            told(name, number)
            try:
                with files_as_allowed(), _uninterrupted():
                    trial(library, SHAPES[name], features)
            except RefusedError as error:
                found[name] = f"{error.program}: {error.reason}"
            else:
                found[name] = None
        return found

    def libbpf_is_bundled(self) -> bool:
        """Return whether the libbpf that would be loaded is the one inside the package, and not the system's."""
        return bundled() is not None

    def open_counter(self, event: perf.Event, pid: int, cpu: int) -> int:
        """Open a perf event and close it again. Return 0, or the errno of the failure."""
        try:
            os.close(perf.open_counter(event, pid=pid, cpu=cpu))
        except OSError as error:
            return error.errno or errno.EIO
        return 0

    def create_map(self) -> int:
        """Create an eBPF map of one element and close it again. Return 0, or the errno of the failure."""
        number = _BPF_CALLS.get(self.machine())
        if number is None:
            return errno.ENOSYS
        attributes = struct.pack("=IIII", 2, 4, 4, 1).ljust(72, b"\0")  # BPF_MAP_CREATE of BPF_MAP_TYPE_ARRAY
        try:
            os.close(system_call(number, 0, ctypes.create_string_buffer(attributes, len(attributes)), len(attributes)))
        except OSError as error:
            return error.errno or errno.EIO
        return 0


def _packaged_object() -> Path | None:
    found = files("headway.linux").joinpath("bpf", "progress.bpf.o")
    return found if isinstance(found, Path) and found.is_file() else None


@dataclass(frozen=True)
class System:
    """The machine to probe: its file tree and its kernel."""

    root: Path = Path("/")
    kernel: Kernel = field(default_factory=Kernel)
    object: Path | None = field(default_factory=_packaged_object)
    """The eBPF object of the package; None: it is not there."""
    shapes: Sequence[str] = (FULL_SHAPE,)
    """The shapes (`headway.linux.bpf.programs.loading`) in which the eBPF programs are loaded.

    The usual one is tried too, if one is refused.
    """
    told: Callable[[str, int], None] = lambda what, tried: None
    """Called with what is being tried, and how many shapes have been, for progress messages."""

    def path(self, name: str) -> Path:
        """Return the path of a file of the machine."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str | None:
        """Return the text of a file without the final newline; None if it cannot be read."""
        try:
            return self.path(name).read_text(errors="replace").strip()
        except OSError:
            return None

    def number(self, name: str) -> int | None:
        """Return the number in a file; None if there is none."""
        try:
            return int(self.text(name) or "")
        except ValueError:
            return None

    @cached_property
    def status(self) -> Mapping[str, str]:
        """The fields of /proc/self/status."""
        return status(self.path("/proc/self"))

    @cached_property
    def effective(self) -> frozenset[privileges.LinuxCapability]:
        """The capabilities(7) that this process has in effect."""
        return privileges.effective_in(self.status) if "CapEff" in self.status else frozenset()

    @cached_property
    def mounts(self) -> list[Mount]:
        """The mounts that this process sees."""
        return parse_mounts(self.text("/proc/self/mountinfo") or "")

    @cached_property
    def configuration(self) -> str | None:
        """The configuration with which the kernel was built; None if it cannot be found."""
        try:
            return gzip.decompress(self.path("/proc/config.gz").read_bytes()).decode(errors="replace")
        except (OSError, EOFError):
            release = self.kernel.release()
            return self.text(f"/boot/config-{release}") or self.text(f"/lib/modules/{release}/config")

    def configured(self, option: str) -> bool | None:
        """Return whether the kernel was built with this option (without CONFIG_); None if that is not known."""
        if self.configuration is None:
            return None
        return re.search(rf"^CONFIG_{option}=[ym]", self.configuration, re.MULTILINE) is not None

    @cached_property
    def btf(self) -> bytes:
        """The kernel's type information (BTF); empty if it cannot be read."""
        try:
            return self.path("/sys/kernel/btf/vmlinux").read_bytes()
        except OSError:
            return b""

    def typed(self, name: str) -> bool:
        """Return whether the kernel's type information contains this name."""
        return b"\0" + name.encode() + b"\0" in self.btf

    @cached_property
    def virtual(self) -> str | None:
        """What shows that this is a virtual machine; None if nothing does."""
        if re.search(r"^flags\s*:.*\bhypervisor\b", self.text("/proc/cpuinfo") or "", re.MULTILINE):
            return "processor flag hypervisor"
        kind = self.text("/sys/hypervisor/type")
        if kind:
            return f"hypervisor {kind}"
        product = self.text("/sys/class/dmi/id/product_name") or ""
        known = re.search("KVM|QEMU|VirtualBox|VMware|Virtual Machine|HVM", product)
        return product if known else None


def _probes() -> tuple[tuple[str, Callable[[System], Capability]], ...]:
    """Return what probes each capability, in the order in which they are worth reading."""
    return (
        ("kernel", _kernel),
        ("BTF", _btf),
        ("privileges", _privileges),
        ("bpf system call", _bpf_call),
        ("lockdown", _lockdown),
        ("libbpf", _libbpf),
        ("eBPF object", _object),
        ("eBPF programs", _programs),
        ("tracepoints", _tracepoints),
        ("more tracepoints", _more_tracepoints),
        ("ring buffer", _ring_buffer),
        ("task storage", _task_storage),
        ("task iterator", _task_iterator),
        ("hardware counters", _hardware_counters),
        ("counters of progress", _counters_of_progress),
        ("software counters", _software_counters),
        ("marked functions", _uprobes),
        ("perf_event_paranoid", _paranoid),
        ("steal accounting", _steal),
        ("IRQ time accounting", _irq_time),
        ("exact user/system split", _split),
        ("/proc schedstat", _schedstat),
        ("/proc of others", _hidepid),
        ("/proc syscall", _syscall),
        ("/proc wchan", _wchan),
        ("/proc children", _children),
        ("delay accounting", _delays),
        ("cgroup v2", _cgroup),
        ("ptrace scope", _ptrace),
        ("model-specific registers", _msr),
        ("SMI counter", _smi),
        ("instruction trace", _instruction_trace),
        ("pid namespace", _pid_namespace),
        ("time namespace", _time_namespace),
        ("no container", _container),
        ("clock", _clock),
    )


def capabilities(system: System | None = None) -> list[Capability]:
    """Probe everything and return the findings in the order in which they are best read. Never raises."""
    system = System() if system is None else system
    found = []
    for name, probe in _probes():
        system.told(name, 0)
        try:
            found.append(probe(system))
        except (OSError, ValueError, struct.error, ctypes.ArgumentError, EventError) as error:
            found.append(Capability(name, False, f"could not be probed: {error}"))
    return found


def bpf_verdict(found: Sequence[Capability]) -> Capability | None:
    """Return the first capability that the eBPF source lacks here; None: it can measure."""
    by_name = {capability.name: capability for capability in found}
    return next((by_name[name] for name in BPF_NEEDS if name in by_name and not by_name[name].available), None)


@contextmanager
def _uninterrupted() -> Iterator[None]:
    """Block SIGINT meanwhile: an exception in the function that libbpf calls with its messages would be swallowed."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _rebuild(option: str) -> str:
    return f"a kernel built with CONFIG_{option}=y"


def _configured(system: System, name: str, option: str, there: str, missing: str) -> Capability:
    built = system.configured(option)
    if built is None:
        remedy = f"make /boot/config-{system.kernel.release()} readable"
        return Capability(
            name, False, f"not known: the kernel's configuration, which has CONFIG_{option}, cannot be read", remedy
        )
    return Capability(name, built, there, None) if built else Capability(name, False, missing, _rebuild(option))


def _kernel(system: System) -> Capability:
    release, machine = system.kernel.release(), system.kernel.machine()
    if machine in ARCHITECTURES:
        return Capability("kernel", True, f"Linux {release} on {machine}")
    return Capability("kernel", False, f"Linux {release} on {machine}; eBPF is supported on {', '.join(ARCHITECTURES)}")


def _btf(system: System) -> Capability:
    path = "/sys/kernel/btf/vmlinux"
    if not system.path(path).exists():
        return Capability("BTF", False, f"there is no {path}", _rebuild("DEBUG_INFO_BTF"))
    if not system.btf:
        return Capability("BTF", False, f"{path} cannot be read", f"sudo chmod a+r {path}")
    return Capability("BTF", True, f"{path}, {len(system.btf) / 1e6:.1f} MB")


def _privileges(system: System) -> Capability:
    name = "privileges"
    restraints = []
    if system.status.get("NoNewPrivs") == "1":
        restraints.append("no_new_privs is set: neither sudo nor file capabilities work in this session")
    if system.status.get("Seccomp", "0") != "0":
        restraints.append("a seccomp filter is active")
    hint = "".join(f"; {restraint}" for restraint in restraints)
    if in_user_namespace(system.path("/proc/self/uid_map")):
        words = "this is a user namespace, whose capabilities do not permit eBPF"
        return Capability(name, False, words + hint, "root of the machine: run a rootless container as root instead")
    if {privileges.LinuxCapability.BPF, privileges.LinuxCapability.PERFMON} <= system.effective:
        return Capability(name, True, f"CAP_BPF and CAP_PERFMON are effective{hint}")
    if privileges.allow_bpf(system.effective):
        return Capability(name, True, f"CAP_SYS_ADMIN is effective{hint}")
    if restraints and "no_new_privs" in restraints[0]:
        remedy = "start from a session without no_new_privs (docker: drop --security-opt no-new-privileges)"
    else:
        remedy = f"{_SUDO} (or: sudo setcap cap_bpf,cap_perfmon+ep PYTHON, a copy that only you may run)"
    return Capability(name, False, f"neither CAP_BPF with CAP_PERFMON nor CAP_SYS_ADMIN is effective{hint}", remedy)


def _bpf_call(system: System) -> Capability:
    name = "bpf system call"
    error = system.kernel.create_map()
    if not error:
        return Capability(name, True, "a map could be created")
    if error == errno.ENOSYS:
        return Capability(name, False, "the kernel has no bpf(2), or a filter hides it", _rebuild("BPF_SYSCALL"))
    why = f"bpf(2) fails: {os.strerror(error)}"
    if error in (errno.EPERM, errno.EACCES) and privileges.LinuxCapability.SYS_ADMIN in system.effective:
        return Capability(
            name, False, f"{why}, in spite of the privileges", "docker run --security-opt seccomp=unconfined …"
        )
    return Capability(name, False, why, _SUDO)


def _lockdown(system: System) -> Capability:
    text = system.text("/sys/kernel/security/lockdown")
    if text is None:
        return Capability("lockdown", True, "not in use (there is no /sys/kernel/security/lockdown)")
    mode = (re.search(r"\[(\w+)\]", text) or [text, text])[1]
    if mode == "confidentiality":
        why = "lockdown is in mode confidentiality: eBPF may not read the kernel's memory"
        return Capability("lockdown", False, why, "boot with lockdown=integrity, or with Secure Boot off")
    return Capability("lockdown", True, f"mode {mode}")


def _libbpf(system: System) -> Capability:
    version = system.kernel.libbpf()
    remedy = "sudo apt install libbpf1   (Fedora: sudo dnf install libbpf)"
    if version is None and system.kernel.libbpf_is_bundled():
        again = "pip install --force-reinstall headway"
        return Capability("libbpf", False, "the libbpf inside the package cannot be loaded", again)
    if version is None:
        return Capability("libbpf", False, "libbpf.so.1 is not installed", remedy)
    if version[0] < 1:
        old = f"{version[0]}.{version[1]}" if version != (0, 0) else "before 0.6"
        return Capability("libbpf", False, f"libbpf {old} is too old, 1.0 is needed", remedy)
    where = "inside the package" if system.kernel.libbpf_is_bundled() else "the system's"
    return Capability("libbpf", True, f"version {version[0]}.{version[1]}, {where}")


def _object(system: System) -> Capability:
    if system.object is not None:
        return Capability("eBPF object", True, f"in the package, {system.object.stat().st_size // 1024} KiB")
    remedy = "pip install --force-reinstall headway"
    return Capability("eBPF object", False, "the package has no eBPF object (linux/bpf/progress.bpf.o)", remedy)


def _missing_tracepoints(system: System, names: Sequence[str]) -> list[str]:
    return [name for name in names if not system.typed(f"btf_trace_{name}")]


def _programs(system: System) -> Capability:
    """Load the eBPF programs: only that shows whether this kernel's verifier accepts them."""
    name = "eBPF programs"
    if not privileges.allow_bpf(system.effective):
        return Capability(name, False, "not tried: loading them needs CAP_BPF and CAP_PERFMON", _SUDO)
    if system.object is None or not system.btf:
        return Capability(name, False, "not tried: the eBPF object or BTF is missing")
    try:
        found = _tried(system, name)
    except HeadwayError as error:
        return Capability(name, False, error.cause, error.advice or None)
    refused = {shape: why for shape, why in found.items() if why is not None}
    if not refused:
        return Capability(name, True, _loaded(list(found)))
    by_reason: dict[str, list[str]] = {}
    for shape, why in refused.items():
        by_reason.setdefault(why, []).append(shape)
    reasons = "; ".join(f"for {', '.join(shapes)} ({why})" for why, shapes in by_reason.items())
    all_of_them = "all" if len(refused) == len(found) else f"{len(refused)} of {len(found)}"
    words = f"the kernel refuses {all_of_them} shapes of them: {reasons}"
    if len(found) == 1:
        words = f"the kernel refuses them {reasons}"
    if USUAL_SHAPE not in refused:  # the shapes of other commands are exceptions
        return Capability(name, True, words + _untried(len(found)))
    return Capability(
        name,
        False,
        words,
        "use --source proc for these, and report this output and that of uname -a",
    )


def _tried(system: System, name: str) -> dict[str, str | None]:
    """Load the programs in the shapes that are wanted, and in the usual one if that alone may do."""

    def told(shape: str, tried: int) -> None:
        system.told(f"{name}, as for {shape}", tried)

    found = system.kernel.load_programs(system.shapes, told)
    if USUAL_SHAPE not in found and any(found.values()):
        found |= system.kernel.load_programs((USUAL_SHAPE,), told)
    return found


def _loaded(shapes: Sequence[str]) -> str:
    """Return what was found, where the kernel loads the programs in all the shapes that were tried."""
    untried = _untried(len(shapes))
    if not untried:
        return f"the kernel loads them in all {len(shapes)} shapes that commands need"
    return f"the kernel loads them for headway {' and '.join(shapes)}{untried}"


def _untried(tried: int) -> str:
    """Return a clause that says how many shapes were not tried; empty: all were."""
    from headway.linux.bpf.programs.loading import SHAPES

    others = len(SHAPES) - tried
    return f"; the {others} other ways to measure: not tried (--all)" if others > 0 else ""


def _tracepoints(system: System) -> Capability:
    if not system.btf:
        return Capability("tracepoints", False, "not known without BTF")
    missing = _missing_tracepoints(system, TRACEPOINTS)
    if missing:
        return Capability("tracepoints", False, f"the kernel has no {', '.join(missing)}", _rebuild("FTRACE_SYSCALLS"))
    return Capability("tracepoints", True, f"all {len(TRACEPOINTS)} that are needed")


def _more_tracepoints(system: System) -> Capability:
    name = "more tracepoints"
    wanted = OPTIONAL_TRACEPOINTS.get(system.kernel.machine(), ())
    if not system.btf:
        return Capability(name, False, "not known without BTF")
    missing = _missing_tracepoints(system, wanted)
    if missing:
        why = f"the kernel has no {', '.join(missing)}: its time is in the surrounding state"
        return Capability(name, False, why)
    return Capability(name, True, ", ".join(wanted) or "none wanted on this architecture")


def _btf_feature(system: System, name: str, symbol: str, there: str) -> Capability:
    if not system.btf:
        return Capability(name, False, "not known without BTF")
    if system.typed(symbol):
        return Capability(name, True, there)
    return Capability(name, False, f"the kernel does not know {symbol}", "a newer kernel (5.15 has all of it)")


def _ring_buffer(system: System) -> Capability:
    return _btf_feature(system, "ring buffer", "BPF_MAP_TYPE_RINGBUF", "transitions can be recorded")


def _task_storage(system: System) -> Capability:
    return _btf_feature(system, "task storage", "BPF_MAP_TYPE_TASK_STORAGE", "a thread's cells can be kept with it")


def _task_iterator(system: System) -> Capability:
    return _btf_feature(system, "task iterator", "bpf_iter__task", "existing threads can be measured exactly")


def _hardware_counters(system: System) -> Capability:
    name = "hardware counters"
    everywhere = system.kernel.open_counter(_CYCLES, -1, 0)
    if not everywhere:
        return Capability(name, True, "cycles can be counted on each processor")
    own = system.kernel.open_counter(_CYCLES_OF_USER_CODE, 0, -1)
    if own in (errno.ENOENT, errno.ENODEV, errno.EOPNOTSUPP, errno.ENOSYS):
        if system.virtual:
            why = f"virtual machine without a performance monitoring unit ({system.virtual})"
            return Capability(
                name, False, why, "on the host: let the guest have one, e.g. qemu-system -cpu host,pmu=on"
            )
        return Capability(name, False, f"there is no performance monitoring unit with a driver ({os.strerror(own)})")
    level = system.number("/proc/sys/kernel/perf_event_paranoid")
    if not own:
        why = f"only a thread's own, not per processor (perf_event_paranoid is {level})"
        return Capability(name, False, why, "sudo sysctl kernel.perf_event_paranoid=0")
    if own in (errno.EACCES, errno.EPERM):
        why = f"not allowed: perf_event_paranoid is {level}" if level is not None and level > 2 else "not allowed"
        hint = ", and a seccomp filter is active" if system.status.get("Seccomp", "0") != "0" else ""
        return Capability(name, False, why + hint, "sudo sysctl kernel.perf_event_paranoid=0")
    return Capability(name, False, f"perf_event_open fails: {os.strerror(own)}")


def _counters_of_progress(system: System) -> Capability:
    """Return what is counted on this processor, by which entry of counters.toml, and why the rest is not."""
    name = "counters of progress"
    found = default_set(system.root)
    if isinstance(found, str):
        return Capability(name, False, found)
    text = f"{' and '.join(found.processors)}: {', '.join(map(_words, found.fields)) or 'nothing'}"
    whys: dict[str, list[str]] = {}
    for figure, why in found.unavailable.items():
        whys.setdefault(why, []).append(_words(figure))
    text += "".join(f"; not {' or '.join(figures)} ({why})" for why, figures in whys.items())
    text += "".join(f"; by {document}" for document in found.documents)
    own = system.kernel.open_counter(_CYCLES_OF_USER_CODE, 0, -1)
    if own:
        return Capability(name, False, f"{text}; but no counter can be opened ({os.strerror(own)})")
    enough = {"cycles", "stall_cycles", "memory_stall_cycles"} <= found.fields.keys()
    return Capability(name, enough, text)


def _words(figure: str) -> str:
    return figure.replace("_", " ")


def _software_counters(system: System) -> Capability:
    name = "software counters"
    errors = [system.kernel.open_counter(event, -1, 0) for event in perf.FAULTS]
    error = next((error for error in errors if error), 0)
    if not error:
        return Capability(name, True, "page faults, minor and major, on each processor")
    remedy = "sudo sysctl kernel.perf_event_paranoid=0" if error in (errno.EACCES, errno.EPERM) else None
    return Capability(name, False, f"page faults on a processor: {os.strerror(error)}", remedy)


def _uprobes(system: System) -> Capability:
    name = "marked functions"
    if system.text("/sys/bus/event_source/devices/uprobe/type") is None:
        return Capability(
            name, False, "the kernel has no uprobes, which --noneffective needs", _rebuild("UPROBE_EVENTS")
        )
    if not privileges.allow_perf(system.effective):
        return Capability(name, False, "uprobes need CAP_PERFMON or CAP_SYS_ADMIN", _SUDO)
    return Capability(name, True, "uprobes, at entry and return")


def _paranoid(system: System) -> Capability:
    name = "perf_event_paranoid"
    level = system.number("/proc/sys/kernel/perf_event_paranoid")
    if level is None:
        return Capability(name, False, "the kernel has no perf events", _rebuild("PERF_EVENTS"))
    if privileges.allow_perf(system.effective):
        return Capability(name, True, f"{level}; does not matter with these privileges")
    allows = {
        -1: "everything",
        0: "all but raw tracepoints",
        1: "own threads, kernel too",
        2: "own threads, user code only",
    }
    why = f"{level}: {allows.get(max(level, -1), 'nothing')}"
    return Capability(name, level <= 0, why, None if level <= 0 else "sudo sysctl kernel.perf_event_paranoid=0")


def _steal(system: System) -> Capability:
    name = "steal accounting"
    if not system.virtual:
        return Capability(name, True, "there is no hypervisor that could steal time")
    if system.typed("prev_steal_time_rq") or system.configured("PARAVIRT_TIME_ACCOUNTING"):
        return Capability(name, True, "stolen time is not part of a thread's run time")
    missing = "stolen time is known per processor only, and is part of the threads' run time"
    return Capability(name, False, missing, _rebuild("PARAVIRT_TIME_ACCOUNTING"))


def _irq_time(system: System) -> Capability:
    return _configured(
        system,
        "IRQ time accounting",
        "IRQ_TIME_ACCOUNTING",
        "/proc separates interrupts from the threads that they hit",
        "/proc counts interrupts as time of the thread that they hit (eBPF separates them)",
    )


def _split(system: System) -> Capability:
    name = "exact user/system split"
    for option in ("VIRT_CPU_ACCOUNTING_NATIVE", "VIRT_CPU_ACCOUNTING_GEN"):
        if system.configured(option):
            native = option.endswith("NATIVE") or "nohz_full=" in (system.text("/proc/cmdline") or "")
            if native:
                return Capability(name, True, f"/proc accounts at each transition (CONFIG_{option})")
            why = "/proc samples it at the tick (CONFIG_VIRT_CPU_ACCOUNTING_GEN is off without nohz_full)"
            return Capability(name, False, why, "boot with nohz_full=CPUS (eBPF does not need it)")
    if system.configured("TICK_CPU_ACCOUNTING"):
        return Capability(name, False, "/proc samples it at the tick; only the sum is exact (eBPF does not need it)")
    return Capability(name, False, "not known: the kernel's configuration cannot be read")


def _schedstat(system: System) -> Capability:
    name = "/proc schedstat"
    fields = (system.text("/proc/self/schedstat") or "").split()
    if len(fields) == 3 and fields != ["0", "0", "0"]:
        return Capability(name, True, "run and ready time of each thread, in nanoseconds")
    return Capability(name, False, "no exact run and ready time of a thread in /proc", _rebuild("SCHED_INFO"))


def _hidepid(system: System) -> Capability:
    name = "/proc of others"
    options = next((m.options for m in system.mounts if m.point == "/proc" and m.kind == "proc"), frozenset())
    hidden = next((value for key, _, value in (one.partition("=") for one in options) if key == "hidepid"), "off")
    if hidden in ("0", "off"):
        return Capability(name, True, "threads of all users can be seen")
    remedy = "sudo mount -o remount,hidepid=0 /proc"
    return Capability(name, False, f"/proc is mounted with hidepid={hidden}: only your own threads", remedy)


def _own_file(system: System, name: str, file: str, there: str, option: str | None = None) -> Capability:
    path = f"/proc/thread-self/{file}"
    if not system.path(path).exists():
        return Capability(name, False, f"no {path}", _rebuild(option) if option else None)
    if system.text(path) is None:
        return Capability(name, False, f"{path} cannot be read", _SUDO)
    return Capability(name, True, there)


def _syscall(system: System) -> Capability:
    there = "what a thread waits in, by system call (of other users' threads: as root)"
    return _own_file(system, "/proc syscall", "syscall", there)


def _wchan(system: System) -> Capability:
    return _own_file(system, "/proc wchan", "wchan", "what a thread waits in, by function of the kernel", "KALLSYMS")


def _children(system: System) -> Capability:
    there = "children are found at once"
    return _own_file(system, "/proc children", "children", there, "PROC_CHILDREN")


def _delays(system: System) -> Capability:
    name = "delay accounting"
    switch = system.text("/proc/sys/kernel/task_delayacct")
    if switch == "1" or (switch is None and "delayacct" in (system.text("/proc/cmdline") or "").split()):
        return Capability(name, True, "time waited for disks, swap and memory, by the kernel")
    if switch is None:
        return Capability(name, False, "not built into this kernel, or disabled", "boot with the parameter delayacct")
    return Capability(name, False, "it is switched off", "sudo sysctl kernel.task_delayacct=1")


def _cgroup(system: System) -> Capability:
    where = next((mount.point for mount in system.mounts if mount.kind == "cgroup2"), None)
    if where:
        return Capability("cgroup v2", True, f"mounted at {where}")
    remedy = "sudo mount -t cgroup2 none /sys/fs/cgroup"
    return Capability("cgroup v2", False, "not mounted, so --cgroup cannot be used", remedy)


def _ptrace(system: System) -> Capability:
    scope = system.number("/proc/sys/kernel/yama/ptrace_scope")
    if not scope:
        return Capability("ptrace scope", True, "0, or no Yama: details of all your own processes can be read")
    if scope == 3:
        why = "3: nobody may read the system call of another process, until the next boot"
        return Capability(
            "ptrace scope", False, why, "remove kernel.yama.ptrace_scope from /etc/sysctl.d and boot again"
        )
    why = f"{scope}: wait reasons of processes that headway did not start need root"
    return Capability(
        "ptrace scope",
        privileges.LinuxCapability.SYS_PTRACE in system.effective,
        why,
        "sudo sysctl kernel.yama.ptrace_scope=0",
    )


def _msr(system: System) -> Capability:
    name = "model-specific registers"
    if system.kernel.machine() != "x86_64":
        return Capability(name, False, "only x86 has them")
    device = system.path("/dev/cpu/0/msr")
    if not device.exists():
        built = system.configured("X86_MSR")
        remedy = _rebuild("X86_MSR") if built is False else "sudo modprobe msr"
        return Capability(name, False, "no /dev/cpu/0/msr", remedy)
    if not os.access(device, os.R_OK) or privileges.LinuxCapability.SYS_RAWIO not in system.effective:
        return Capability(name, False, "/dev/cpu/0/msr may not be read", _SUDO)
    return Capability(name, True, "/dev/cpu/0/msr can be read")


def _smi(system: System) -> Capability:
    name = "SMI counter"
    number = system.path("/sys/bus/event_source/devices/msr/events/smi")
    if number.exists():
        return Capability(name, True, "perf event msr/smi/")
    vendor = re.search(r"^vendor_id\s*:\s*(\S+)", system.text("/proc/cpuinfo") or "", re.MULTILINE)
    if vendor and vendor[1] == "GenuineIntel" and not system.virtual:
        return Capability(name, False, "the kernel offers no perf event msr/smi/", _rebuild("PERF_EVENTS"))
    return Capability(
        name, False, "only Intel processors have one, outside of virtual machines; gaps in time are watched instead"
    )


def _instruction_trace(system: System) -> Capability:
    name = "instruction trace"
    unit = trace_unit(system.root)
    if unit is None:
        why, remedy = why_no_unit(system.kernel.machine(), system.root)
        return Capability(name, False, why, remedy)
    if not system.kernel.program("perf"):
        return Capability(
            name, False, f"{unit}, but perf, which records it, is not installed", "apt install linux-perf"
        )
    if unit == "intel_pt" and not system.kernel.library("libipt.so.2"):
        why = "intel_pt can be recorded; decoding it needs libipt"
        return Capability(name, False, why, "apt install libipt2, or dnf install libipt")
    return Capability(name, True, f"{unit}: headway trace record")


def _pid_namespace(system: System) -> Capability:
    name = "pid namespace"
    try:
        initial = pid_namespace(system.path("/proc/self/ns/pid")) == 0
    except (OSError, ValueError):
        return Capability(name, False, "not known: /proc/self/ns/pid cannot be read")
    if initial:
        return Capability(name, True, "the initial one: all threads of the machine are in sight")
    return Capability(name, False, "not the initial one: only threads in it are in sight", "docker run --pid=host …")


def _time_namespace(system: System) -> Capability:
    name = "time namespace"
    shift = shift_of(str(system.path("/proc/self")))
    outside = "headway measures outside of it, and starts commands in it"
    if left():
        return Capability(name, True, f"its clock is {left() / 1e9:+,.0f} s from the kernel's: {outside}")
    if not shift:
        return Capability(name, True, "its clock is that of the kernel")
    ahead = f"{shift.ns / 1e9:+,.0f} s from the kernel's" if shift.known else "not known to be the kernel's"
    if privileges.LinuxCapability.SYS_ADMIN in system.effective:
        return Capability(name, True, f"its clock is {ahead}: {outside}")
    return Capability(
        name, False, f"its clock is {ahead}, and only root may leave it", "sudo nsenter -T -t 1 headway …"
    )


def _container(system: System) -> Capability:
    name = "no container"
    signs = [path for path in ("/.dockerenv", "/run/.containerenv") if system.path(path).exists()]
    variable = re.search(r"\0?container=([^\0]*)", system.text("/proc/1/environ") or "")
    if variable:
        signs.append(f"container={variable[1]}")
    groups = re.search("docker|kubepods|containerd|libpod|lxc", system.text("/proc/1/cgroup") or "")
    if groups:
        signs.append(f"cgroup {groups[0]}")
    if not signs:
        return Capability(name, True, "nothing shows that this is a container")
    remedy = "docker run --privileged --pid=host …"
    return Capability(name, False, f"it seems to be one ({signs[0]}): privileges and /proc may be limited", remedy)


def _clock(system: System) -> Capability:
    base = "/sys/devices/system/clocksource/clocksource0"
    current = system.text(f"{base}/current_clocksource")
    others = system.text(f"{base}/available_clocksource") or ""
    if current is None:
        return Capability("clock", False, "not known: sysfs does not tell the clocksource")
    if current in ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page"):
        return Capability("clock", True, f"{current}: read without a system call")
    if "tsc" in others.split():
        remedy = f"echo tsc | sudo tee {base}/current_clocksource"
    else:
        remedy = "boot with tsc=reliable, if the processor's clock can be trusted (dmesg says why it was not)"
    return Capability("clock", False, f"{current}: it is slow to read, so every transition costs more", remedy)
