"""Every probe against a file tree and a kernel that are made up, and all of them once against the real ones."""

from __future__ import annotations

import errno
import gc
import gzip
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import pytest
from tests.linux.machines import SKYLAKE_UNIT, cpuinfo, machine, skylake

from headway.linux.bpf.programs.loading import SHAPES, Shape
from headway.linux.bpf.programs.unavailable import UnavailableError
from headway.linux.doctor.capabilities import (
    BPF_NEEDS,
    FULL_SHAPE,
    OPTIONAL_TRACEPOINTS,
    TRACEPOINTS,
    USUAL_SHAPE,
    Capability,
    Kernel,
    System,
    bpf_verdict,
    capabilities,
)
from headway.linux.options import MeasureOptions, Selection
from headway.linux.perf.perf_event import Event

pytestmark = pytest.mark.kernel

SYMBOLS = (
    *(f"btf_trace_{name}" for name in (*TRACEPOINTS, *OPTIONAL_TRACEPOINTS["x86_64"])),
    "BPF_MAP_TYPE_RINGBUF",
    "BPF_MAP_TYPE_TASK_STORAGE",
    "bpf_iter__task",
    "prev_steal_time_rq",
)
CONFIGURATION = "CONFIG_TICK_CPU_ACCOUNTING=y\n# CONFIG_IRQ_TIME_ACCOUNTING is not set\nCONFIG_X86_MSR=m\n"
BPF_AND_PERFMON = f"{1 << 38 | 1 << 39:016x}"
HARDWARE, SOFTWARE = 0, 1


class FakeKernel(Kernel):
    """A kernel that answers as told."""

    def __init__(
        self,
        counter: int = 0,
        own_counter: int = 0,
        software: int = 0,
        bpf: int = 0,
        libbpf: tuple[int, int] | None = (1, 1),
        machine: str = "x86_64",
        refused: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self.refused = refused
        self.answers = {(HARDWARE, -1): counter, (HARDWARE, 0): own_counter, (SOFTWARE, -1): software}
        self.bpf = bpf
        self.version = libbpf
        self.architecture = machine

    def release(self) -> str:
        return "6.1.0-test"

    def machine(self) -> str:
        return self.architecture

    def libbpf(self) -> tuple[int, int] | None:
        return self.version

    def open_counter(self, event: Event, pid: int, cpu: int) -> int:
        return self.answers[event.type, pid]

    def create_map(self) -> int:
        return self.bpf

    def load_programs(self, shapes: Sequence[str], told: Callable[[str, int], None]) -> dict[str, str | None]:
        for number, name in enumerate(shapes):
            told(name, number)
        return {name: self.refused.get(name) for name in shapes}


MOUNTS = "22 28 0:20 / /proc rw,relatime - proc proc rw\n30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 none rw\n"


class Tree:
    """A machine's files below a directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.object: Path | None = root / "progress.bpf.o"
        self.object.write_bytes(b"\x7fELF")
        self.write("/sys/kernel/btf/vmlinux", "\0" + "\0".join(SYMBOLS) + "\0")
        self.write("/proc/self/status", f"Name:\tpython\nCapEff:\t{BPF_AND_PERFMON}\nNoNewPrivs:\t0\nSeccomp:\t0\n")
        self.write("/proc/cpuinfo", "vendor_id\t: GenuineIntel\nflags\t\t: fpu tsc\n")
        self.write("/proc/sys/kernel/perf_event_paranoid", "2\n")
        self.write("/boot/config-6.1.0-test", CONFIGURATION)
        self.write("/proc/self/mountinfo", MOUNTS)

    def write(self, name: str, text: str) -> None:
        path = self.root / name.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def remove(self, name: str) -> None:
        (self.root / name.lstrip("/")).unlink()

    def probe(self, kernel: Kernel | None = None, shapes: Sequence[str] = (USUAL_SHAPE,)) -> dict[str, Capability]:
        found = capabilities(System(self.root, kernel or FakeKernel(), self.object, shapes))
        assert len({capability.name for capability in found}) == len(found)
        return {capability.name: capability for capability in found}

    def verdict(self, kernel: Kernel | None = None, shapes: Sequence[str] = (USUAL_SHAPE,)) -> str | None:
        lacking = bpf_verdict(list(self.probe(kernel, shapes).values()))
        return lacking.name if lacking else None


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


def test_a_machine_with_everything_measures_exactly(tree: Tree) -> None:
    found = tree.probe()
    assert [name for name in BPF_NEEDS if not found[name].available] == []
    assert tree.verdict() is None


def test_marked_functions_need_uprobes_and_the_privilege_to_set_them(tree: Tree) -> None:
    assert "CONFIG_UPROBE_EVENTS" in (tree.probe()["marked functions"].remedy or "")
    tree.write("/sys/bus/event_source/devices/uprobe/type", "8\n")
    assert tree.probe()["marked functions"].available
    tree.write("/proc/self/status", "CapEff:\t0000000000000000\n")
    assert "sudo" in (tree.probe()["marked functions"].remedy or "")


def test_an_empty_machine_is_probed_without_an_exception(tmp_path: Path) -> None:
    found = capabilities(
        System(tmp_path, FakeKernel(errno.ENOENT, errno.ENOENT, errno.ENOENT, errno.ENOSYS, None), None)
    )
    assert not any(capability.why.startswith("could not be probed") for capability in found)
    assert bpf_verdict(found) is not None


def test_a_probe_that_fails_is_a_capability_that_is_not_there(tree: Tree) -> None:
    tree.write("/proc/self/status", "CapEff:\tnonsense\n")
    found = tree.probe()["privileges"]
    assert not found.available
    assert "could not be probed" in found.why


def test_without_privileges_stat_is_sampled(tree: Tree) -> None:
    tree.write("/proc/self/status", "CapEff:\t0000000000000000\nNoNewPrivs:\t0\nSeccomp:\t0\n")
    assert tree.verdict(FakeKernel(bpf=errno.EPERM)) == "privileges"
    assert "sudo" in (tree.probe()["privileges"].remedy or "")


def test_no_new_privs_makes_sudo_no_remedy(tree: Tree) -> None:
    tree.write("/proc/self/status", "CapEff:\t0\nNoNewPrivs:\t1\nSeccomp:\t2\n")
    found = tree.probe()["privileges"]
    assert "no_new_privs" in found.why
    assert "seccomp" in found.why
    assert not (found.remedy or "").startswith("sudo")


@pytest.mark.parametrize(
    ("effective", "available"),
    [(1 << 39 | 1 << 38, True), (1 << 21, True), (1 << 39, False), (1 << 38, False), (0, False)],
)
def test_bpf_needs_perfmon_beside_it_or_the_old_capability(tree: Tree, effective: int, available: bool) -> None:
    tree.write("/proc/self/status", f"CapEff:\t{effective:016x}\n")
    assert tree.probe()["privileges"].available is available


def test_a_kernel_without_type_information_cannot_be_measured_exactly(tree: Tree) -> None:
    tree.remove("/sys/kernel/btf/vmlinux")
    assert tree.verdict() == "BTF"
    assert "CONFIG_DEBUG_INFO_BTF" in (tree.probe()["BTF"].remedy or "")


def test_a_missing_tracepoint_is_named(tree: Tree) -> None:
    names = [name for name in SYMBOLS if name != "btf_trace_softirq_exit"]
    tree.write("/sys/kernel/btf/vmlinux", "\0" + "\0".join(names) + "\0")
    assert tree.verdict() == "tracepoints"
    assert "softirq_exit" in tree.probe()["tracepoints"].why


def test_a_name_in_the_type_information_is_matched_as_a_whole(tree: Tree) -> None:
    names = [name + "_x" if name == "btf_trace_sys_enter" else name for name in SYMBOLS]
    tree.write("/sys/kernel/btf/vmlinux", "\0" + "\0".join(names) + "\0")
    assert not tree.probe()["tracepoints"].available


@pytest.mark.parametrize("version", [None, (0, 0), (0, 8)])
def test_libbpf_missing_or_old_is_refused_with_the_package_to_install(
    tree: Tree, version: tuple[int, int] | None
) -> None:
    kernel = FakeKernel(libbpf=version)
    assert tree.verdict(kernel) == "libbpf"
    assert "libbpf1" in (tree.probe(kernel)["libbpf"].remedy or "")


def test_a_package_without_its_object_is_found_out(tree: Tree) -> None:
    tree.object = None
    assert tree.verdict() == "eBPF object"


@pytest.mark.parametrize(
    ("text", "available"),
    [
        ("[none] integrity confidentiality", True),
        ("none [integrity] confidentiality", True),
        ("none integrity [confidentiality]", False),
    ],
)
def test_only_confidentiality_locks_ebpf_out(tree: Tree, text: str, available: bool) -> None:
    tree.write("/sys/kernel/security/lockdown", text)
    assert tree.probe()["lockdown"].available is available


def test_a_filter_that_denies_bpf_in_spite_of_privileges_is_seen(tree: Tree) -> None:
    tree.write("/proc/self/status", f"CapEff:\t{1 << 21:016x}\n")
    kernel = FakeKernel(bpf=errno.EPERM)
    assert tree.verdict(kernel) == "bpf system call"
    assert "seccomp" in (tree.probe(kernel)["bpf system call"].remedy or "")


@pytest.mark.parametrize(
    ("everywhere", "own", "flags", "available", "why", "remedy"),
    [
        (0, 0, "fpu", True, "each processor", None),
        (errno.ENOENT, errno.ENOENT, "fpu hypervisor", False, "virtual machine", "pmu=on"),
        (errno.EACCES, errno.ENOENT, "fpu hypervisor", False, "virtual machine", "pmu=on"),
        (errno.ENOENT, errno.ENOENT, "fpu", False, "no performance monitoring unit", None),
        (errno.EACCES, 0, "fpu", False, "only a thread's own", "perf_event_paranoid=0"),
        (errno.EACCES, errno.EACCES, "fpu", False, "not allowed", "perf_event_paranoid=0"),
        (errno.EMFILE, errno.EMFILE, "fpu", False, "Too many open files", None),
    ],
)
def test_why_there_are_no_hardware_counters(
    tree: Tree, everywhere: int, own: int, flags: str, available: bool, why: str, remedy: str | None
) -> None:
    tree.write("/proc/cpuinfo", f"flags\t\t: {flags}\n")
    found = tree.probe(FakeKernel(everywhere, own))["hardware counters"]
    assert found.available is available
    assert why in found.why
    assert (remedy is None and found.remedy is None) or (remedy or "-") in (found.remedy or "")


def test_what_would_be_counted_is_said_with_its_entry_of_the_table(tmp_path: Path) -> None:
    system = System(skylake(tmp_path), FakeKernel())
    found = {c.name: c for c in capabilities(system)}["counters of progress"]
    assert found.available
    assert "Skylake" in found.why
    assert "external stall cycles" in found.why
    blind = {c.name: c for c in capabilities(System(tmp_path, FakeKernel(own_counter=errno.EACCES)))}
    assert "Permission denied" in blind["counters of progress"].why


def test_where_the_table_has_no_entry_the_processor_is_named(tmp_path: Path) -> None:
    system = System(machine(tmp_path, {"cpu": SKYLAKE_UNIT}, info=cpuinfo("CentaurHauls", 7, 0x5B)), FakeKernel())
    found = {c.name: c for c in capabilities(system)}["counters of progress"]
    assert not found.available
    assert "CentaurHauls family 0x7 model 0x5b" in found.why
    assert "cycles, instructions" in found.why


def test_stolen_time_matters_only_where_somebody_can_steal(tree: Tree) -> None:
    assert tree.probe()["steal accounting"].available
    names = [name for name in SYMBOLS if name != "prev_steal_time_rq"]
    tree.write("/sys/kernel/btf/vmlinux", "\0" + "\0".join(names) + "\0")
    assert tree.probe()["steal accounting"].available
    tree.write("/proc/cpuinfo", "flags\t\t: fpu hypervisor\n")
    assert not tree.probe()["steal accounting"].available


def test_the_configuration_is_read_compressed_or_plain(tree: Tree) -> None:
    assert not tree.probe()["IRQ time accounting"].available
    (tree.root / "proc/config.gz").write_bytes(gzip.compress(b"CONFIG_IRQ_TIME_ACCOUNTING=y\n"))
    assert tree.probe()["IRQ time accounting"].available
    (tree.root / "proc/config.gz").write_bytes(b"not compressed")
    assert not tree.probe()["IRQ time accounting"].available


def test_an_unknown_configuration_is_said_to_be_unknown(tree: Tree) -> None:
    tree.remove("/boot/config-6.1.0-test")
    assert "not known" in tree.probe()["IRQ time accounting"].why


@pytest.mark.parametrize(
    ("option", "available"), [("", True), (",hidepid=0", True), (",hidepid=invisible", False), (",hidepid=2", False)]
)
def test_hidden_processes_are_a_capability(tree: Tree, option: str, available: bool) -> None:
    tree.write("/proc/self/mountinfo", f"22 28 0:20 / /proc rw,relatime shared:5 - proc proc rw{option}\n")
    assert tree.probe()["/proc of others"].available is available


@pytest.mark.parametrize(("text", "available"), [("123 456 7", True), ("0 0 0", False)])
def test_schedstat_of_zeros_is_no_schedstat(tree: Tree, text: str, available: bool) -> None:
    tree.write("/proc/self/schedstat", text)
    assert tree.probe()["/proc schedstat"].available is available


def test_delay_accounting_that_is_off_can_be_switched_on(tree: Tree) -> None:
    tree.write("/proc/sys/kernel/task_delayacct", "0\n")
    assert tree.probe()["delay accounting"].remedy == "sudo sysctl kernel.task_delayacct=1"
    tree.write("/proc/sys/kernel/task_delayacct", "1\n")
    assert tree.probe()["delay accounting"].available


@pytest.mark.parametrize(("inode", "available"), [("4026531836", True), ("4026532999", False)])
def test_a_pid_namespace_is_a_capability(tree: Tree, inode: str, available: bool) -> None:
    (tree.root / "proc/self/ns").mkdir()
    os.symlink(f"pid:[{inode}]", tree.root / "proc/self/ns/pid")
    assert tree.probe()["pid namespace"].available is available


@pytest.mark.parametrize(
    ("name", "text"),
    [("/.dockerenv", ""), ("/proc/1/environ", "PATH=/bin\0container=podman\0"), ("/proc/1/cgroup", "0::/docker/1")],
)
def test_signs_of_a_container_are_noticed(tree: Tree, name: str, text: str) -> None:
    assert tree.probe()["no container"].available
    tree.write(name, text)
    assert not tree.probe()["no container"].available


@pytest.mark.parametrize(
    ("current", "available", "remedy"),
    [("tsc", True, None), ("kvm-clock", True, None), ("hpet", False, "echo tsc"), ("acpi_pm", False, "echo tsc")],
)
def test_a_slow_clock_is_pointed_out(tree: Tree, current: str, available: bool, remedy: str | None) -> None:
    base = "/sys/devices/system/clocksource/clocksource0"
    tree.write(f"{base}/current_clocksource", current)
    tree.write(f"{base}/available_clocksource", "tsc hpet acpi_pm")
    found = tree.probe()["clock"]
    assert found.available is available
    assert found.remedy is None if remedy is None else remedy in (found.remedy or "")


@pytest.mark.parametrize(("scope", "available"), [("0", True), ("1", False), ("3", False)])
def test_ptrace_scope_is_a_capability(tree: Tree, scope: str, available: bool) -> None:
    tree.write("/proc/sys/kernel/yama/ptrace_scope", scope)
    assert tree.probe()["ptrace scope"].available is available


def test_a_missing_msr_device_has_the_module_as_its_remedy(tree: Tree) -> None:
    assert tree.probe()["model-specific registers"].remedy == "sudo modprobe msr"
    assert not tree.probe(FakeKernel(machine="aarch64"))["model-specific registers"].available


def test_another_architecture_is_told(tree: Tree) -> None:
    assert tree.verdict(FakeKernel(machine="riscv64")) == "kernel"


@pytest.fixture(scope="module")
def real() -> list[Capability]:
    """The capabilities of this machine."""
    return capabilities()


def test_every_missing_capability_says_why(real: list[Capability]) -> None:
    for capability in real:
        assert capability.why
        assert "\n" not in capability.why
        assert not capability.why.endswith(".")


@pytest.mark.usefixtures("real")  # what is opened once and kept, such as libraries, is open
def test_probing_leaves_no_file_open() -> None:
    gc.collect()  # what earlier tests left in cycles goes now, not in between
    before = os.listdir("/proc/self/fd")
    capabilities()
    assert os.listdir("/proc/self/fd") == before


def test_the_real_kernel_answers_with_an_errno() -> None:
    kernel = Kernel()
    allowed = errno.ENOENT, errno.EACCES, errno.EPERM, errno.ENOSYS, errno.EINVAL
    assert kernel.open_counter(Event("nonsense", 99, 0), 0, -1) in allowed
    assert kernel.create_map() in (0, errno.EPERM, errno.ENOSYS)


def test_a_shape_that_the_kernel_refuses_is_named_with_the_verifiers_reason(tree: Tree) -> None:
    kernel = FakeKernel(refused={"stat -e": "charge_event: R2 unbounded memory access", "record": "charge_event: R2 x"})
    shapes = USUAL_SHAPE, "stat -e", "record"
    found = tree.probe(kernel, shapes)["eBPF programs"]
    assert "2 of 3 shapes" in found.why
    assert "stat -e (charge_event: R2 unbounded memory access)" in found.why
    assert tree.verdict(kernel, shapes) is None, "what they do not need is measured exactly"
    assert tree.probe(kernel)["eBPF programs"].why.startswith("the kernel loads them for headway stat")


@pytest.mark.parametrize("more", [(), ("record",)])
def test_ebpf_cannot_be_had_where_the_usual_shape_is_refused(tree: Tree, more: tuple[str, ...]) -> None:
    kernel = FakeKernel(refused={USUAL_SHAPE: "handle_sched_switch: R2 unbounded memory access"})
    found = tree.probe(kernel, (USUAL_SHAPE, *more))["eBPF programs"]
    assert not found.available
    assert f"for {USUAL_SHAPE} (handle_sched_switch: R2 unbounded memory access)" in found.why
    assert tree.verdict(kernel, (USUAL_SHAPE, *more)) == "eBPF programs"


def test_what_is_being_tried_is_told(tree: Tree) -> None:
    told: list[tuple[str, int]] = []
    shapes = USUAL_SHAPE, "record"
    system = System(tree.root, FakeKernel(), tree.object, shapes, lambda what, tried: told.append((what, tried)))
    names = [capability.name for capability in capabilities(system)]
    assert [what for what, _ in told if what in names] == names
    assert [(what, tried) for what, tried in told if what not in names] == [
        (f"eBPF programs, as for {USUAL_SHAPE}", 0),
        ("eBPF programs, as for record", 1),
    ]


def test_the_usual_shape_is_that_of_stat_without_options() -> None:
    usual = Shape.of(Selection(pids=(1,)), MeasureOptions(), intervals=False, record=False, namespace=False)
    assert SHAPES[USUAL_SHAPE] == usual


def test_what_is_not_tried_is_said(tree: Tree) -> None:
    some, all_of_them = (tree.probe(shapes=shapes)["eBPF programs"].why for shapes in ((FULL_SHAPE,), tuple(SHAPES)))
    others = f"the {len(SHAPES) - 1} other ways to measure: not tried (--all)"
    assert some == f"the kernel loads them for headway {FULL_SHAPE}; {others}"
    assert "not tried" not in all_of_them


def test_where_the_full_shape_is_refused_the_usual_one_is_tried(tree: Tree) -> None:
    why = "charge_event: R2 unbounded memory access"
    found = tree.probe(FakeKernel(refused={FULL_SHAPE: why}), (FULL_SHAPE,))["eBPF programs"]
    assert found.available, "stat without -v is measured exactly"
    assert f"1 of 2 shapes of them: for {FULL_SHAPE} ({why})" in found.why
    assert "not tried (--all)" in found.why
    both = FakeKernel(refused={FULL_SHAPE: why, USUAL_SHAPE: why})
    assert not tree.probe(both, (FULL_SHAPE,))["eBPF programs"].available


def test_what_is_tried_is_what_stat_needs_with_all_that_its_report_can_show() -> None:
    wanted = MeasureOptions(why=True, durations=1)
    full = Shape.of(Selection(pids=(1,)), wanted, intervals=False, record=False, namespace=False)
    assert SHAPES[FULL_SHAPE] == full


def test_a_reason_does_not_advise_to_use_proc_which_the_verdict_says(tree: Tree) -> None:
    class Full(FakeKernel):
        def load_programs(self, shapes: Sequence[str], told: Callable[[str, int], None]) -> dict[str, str | None]:
            raise UnavailableError("eBPF needs 104 open files", "raise the limit (ulimit -n)")

    found = tree.probe(Full())["eBPF programs"]
    assert not found.available
    assert (found.why, found.remedy) == ("eBPF needs 104 open files", "raise the limit (ulimit -n)")


def test_a_time_namespace_is_left_by_root_only(tree: Tree) -> None:
    assert tree.probe()["time namespace"].available
    for link in ("time", "time_for_children"):
        path = tree.root / "proc/self/ns" / link
        path.parent.mkdir(exist_ok=True)
        path.symlink_to("time:[4026532500]")
    tree.write("/proc/self/timens_offsets", "monotonic      100000         0\nboottime       100000         0\n")
    found = tree.probe()["time namespace"]
    assert not found.available
    assert "+100,000 s" in found.why
    assert tree.verdict() == "time namespace"
    tree.write("/proc/self/status", f"CapEff:\t{1 << 21 | 1 << 38 | 1 << 39:016x}\nNoNewPrivs:\t0\nSeccomp:\t0\n")
    assert tree.probe()["time namespace"].available
    assert tree.verdict() is None


def test_root_of_a_user_namespace_is_not_privileged(tree: Tree) -> None:
    tree.write("/proc/self/uid_map", "         0     100000      65536\n")
    found = tree.probe()["privileges"]
    assert not found.available
    assert "user namespace" in found.why


def test_shapes_are_only_tried_with_the_privileges_that_loading_needs(tree: Tree) -> None:
    tree.write("/proc/self/status", "Name:\tpython\nCapEff:\t0\n")
    found = tree.probe(FakeKernel(refused={USUAL_SHAPE: "never asked"}))["eBPF programs"]
    assert not found.available
    assert found.why.startswith("not tried")


def test_an_instruction_trace_needs_a_unit_perf_and_libipt(tree: Tree) -> None:
    class Equipped(FakeKernel):
        def __init__(self, *there: str) -> None:
            super().__init__()
            self.there = there

        def library(self, name: str) -> bool:
            return name in self.there

        def program(self, name: str) -> bool:
            return name in self.there

    (tree.root / "sys/bus/event_source/devices").mkdir(parents=True, exist_ok=True)
    assert "no Intel PT" in tree.probe()["instruction trace"].why
    tree.write("/sys/bus/event_source/devices/intel_pt/type", "8\n")
    assert "perf" in tree.probe(Equipped())["instruction trace"].why
    without = tree.probe(Equipped("perf"))["instruction trace"]
    assert not without.available
    assert "libipt" in without.why
    assert tree.probe(Equipped("perf", "libipt.so.2"))["instruction trace"].available
