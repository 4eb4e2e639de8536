from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from tests.ledgers import ledgers

from headway.advice import Advice, DeviceInterrupt, Facilities, Remedy, Thresholds, advise
from headway.model import (
    READY_PARTS,
    Behind,
    Cause,
    Cell,
    Counted,
    Estimate,
    Kind,
    Ledger,
    Precision,
    Processor,
    Quality,
    Thread,
    Window,
    kind_of,
)
from headway.model.uses import LockHolder, LockUse, Uses
from headway.views.advice import what_would_help

SECOND = 10**9


def thread(tid: int = 4712, pid: int = 4711, /, **shares: float) -> Thread:
    """A thread measured for a second; the shares of its states, ``__`` for a dot; what is left is ``wait.sleep``."""
    cells = {state.replace("__", "."): Cell(round(share * SECOND), 10_000) for state, share in shares.items()}
    cells["wait.sleep"] = Cell(SECOND - sum(c.time for c in cells.values()), 1)
    return Thread(tid, pid, "a", 0, 0, None, SECOND, SECOND, cells)


PROCESSORS = tuple(Processor(cpu, SECOND, {"user": Cell(SECOND)}) for cpu in range(4))


def ledger(*threads: Thread, source: str = "bpf", processors: tuple[Processor, ...] = ()) -> Ledger:
    return Ledger(source, Window(0, SECOND), threads, processors)


def only(*threads: Thread) -> Advice:
    (advice,) = advise(ledger(*threads))
    return advice


def test_a_thread_that_makes_progress_needs_no_advice() -> None:
    assert advise(ledger(thread(user=0.95, kernel__read=0.05))) == ()


def test_what_is_lost_is_looked_at_only_when_it_passes_its_reference() -> None:
    found = ledger(thread(user=0.8, kernel__read=0.2))
    assert advise(found, Thresholds(td=0.21)) == ()
    assert advise(found, Thresholds(kpi=1.0)) == ()
    (advice,) = advise(found, Thresholds(td=0.19))
    assert (advice.thread, advice.index, advice.value, advice.threshold) == (4712, "kpi", 1.0, 0.25)


@pytest.mark.parametrize(
    ("state", "words", "command"),
    [
        ("kernel.futex", "lock", "sys_enter_futex -t 4712"),
        ("kernel.read", "io_uring", "strace -c -p 4712"),
        ("kernel.fault", "huge pages", "page-faults -t 4712"),
        ("kernel.munmap", "trim_threshold", "-p 4712"),
        ("kernel.clone3", "begin and end", "strace -f -c -e trace=%process -p 4711"),
        ("kernel.fsync", "force them once", "fdatasync"),
        ("kernel.sched_yield", "spins", "-t 4712"),
        ("kernel.epoll_wait", "wakes up often", "-p 4712"),
        ("kernel.getdents64", "less often", "-p 4712"),
        ("softirq.net_rx", "smp_affinity_list", "cat /proc/interrupts"),
        ("irq.timer", "the kernel's own tick", "hrtimer_start"),
        ("irq.call_function", "map and unmap less", "TLB"),
        ("noneffective.parse", "region parse", "-t 4712"),
        ("memory", "share no cache", "lscpu"),
        ("poll", "block", "-p 4712"),
        ("poll.epoll_wait.epoll", "epoll_wait of epoll", "trace=epoll_wait"),
        ("poll.recvfrom.socket", "SO_BUSY_POLL", "recvfrom"),
        ("poll.read.eventfd", "read of eventfd", "trace=read"),
        ("poll.poll", "timeout of 0", "trace=poll,"),
        ("poll.accept4.socket", "listening socket", "accept4"),
        ("poll.sched_yield", "condition variable", "sys_enter_sched_yield -t 4712"),
        ("poll.io_getevents", "min_nr", "io_getevents"),
        ("poll.io_uring_enter.io_uring", "min_complete", "io_uring_enter"),
        ("poll.wait4", "WNOHANG", "wait4"),
        ("poll.ring buffer", "most in poll.ring buffer, as the program marks it", "-p 4712"),
    ],
)
def test_the_state_that_dominates_names_the_cause(state: str, words: str, command: str) -> None:
    advice = only(thread(user=0.5, **{state.replace(".", "__"): 0.3, "kernel__other": 0.05}))
    assert words in advice.text
    assert advice.command is not None
    assert command in advice.command


def test_calls_of_one_cause_are_seen_together() -> None:
    advice = only(thread(user=0.4, kernel__read=0.1, kernel__write=0.1, kernel__openat=0.15))
    assert "io_uring" in advice.text
    assert "most in kernel.write (10,000 times)" in advice.text


def test_who_waits_behind_others_is_to_have_processors_of_its_own() -> None:
    found = ledger(thread(user=0.5, ready=0.3), processors=PROCESSORS[:2])
    (advice,) = advise(found)
    assert advice.index == "ready"
    assert advice.value == pytest.approx(0.375)
    assert (advice.command, advice.undo) == ("sudo headway advise --apply -a -p 4711", "sudo headway advise --undo")
    assert advice.remedy == Remedy("partition", 4711, 1, ())


def test_who_has_more_threads_than_there_are_processors_waits_for_itself() -> None:
    many = [thread(tid, 4711, user=0.4, ready=0.5) for tid in (1, 2, 3)]
    (advice,) = advise(ledger(*many, processors=PROCESSORS[:2]))
    assert advice.remedy is None
    assert advice.command == "taskset -acp 4711"
    assert "work for 2.7 processors" in advice.text


def test_who_could_use_all_processors_cannot_have_them_alone() -> None:
    many = [thread(tid, 4711, user=0.6, ready=0.35) for tid in (1, 2)]
    (advice,) = advise(ledger(*many, processors=PROCESSORS[:2]))
    assert advice.remedy is None
    assert advice.undo is None


def test_who_had_the_processor_meanwhile_is_named() -> None:
    held = (Cause("ready", Behind.HOLDER, "cc1", round(0.18 * SECOND), 10, 99),)
    own = (Cause("ready", Behind.HOLDER, "a", round(0.18 * SECOND), 10, 4713),)
    waits, brother = thread(user=0.5, ready=0.3), thread(4713, 4711, user=0.1)
    (advice,) = advise(ledger(replace(waits, causes=held), brother, processors=PROCESSORS))
    assert "meanwhile cc1 (99) had it for 60% of that time" in advice.text
    assert advice.remedy == Remedy("partition", 4711, 1, (99,))
    (advice,) = advise(ledger(replace(waits, causes=own), brother, processors=PROCESSORS))
    assert "meanwhile a (4713)" in advice.text
    assert advice.remedy is None


@pytest.mark.parametrize(
    ("part", "because", "helps", "command"),
    [
        (
            "throttled",
            "the CPU quota of its control group, or the runtime of its scheduling class, was used up",
            "raise the quota (cpu.max",
            "nr_throttled",
        ),
        ("own", "other threads of its own process had it", "its own threads have work for 0.8", "taskset -acp 4711"),
        ("neighbour", "other processes had it", "keep 1 for this process alone", "--apply -a -p 4711"),
        ("interrupt", "interrupts had it", "a device interrupts: send it", "cat /proc/interrupts"),
        ("stolen", "the hypervisor had it", "dedicated processors", "vmstat"),
        ("wakeup", "it was idle and had to wake up first", "deep idle states", "cpuidle"),
    ],
)
def test_why_a_thread_did_not_run_is_said_and_what_helps(part: str, because: str, helps: str, command: str) -> None:
    found = ledger(thread(user=0.5, ready=0.01, **{f"ready__{part}": 0.29}), processors=PROCESSORS)
    (advice,) = advise(found)
    assert f"38% of the time it could run, it waited for a processor, 97% of that because {because}" in advice.text
    assert helps in advice.text
    assert advice.command is not None
    assert command in advice.command
    assert (advice.index, advice.at_stake) == ("ready", round(0.29 * SECOND))
    assert (advice.remedy is not None) == (part == "neighbour")
    alone = ledger(thread(user=0.5, **{f"ready__{part}": 0.3}), processors=PROCESSORS)
    assert f"waited for a processor because {because}" in advise(alone)[0].text


def test_parts_that_pass_the_threshold_and_the_largest_are_spoken_of() -> None:
    two = thread(user=0.3, ready__throttled=0.3, ready__neighbour=0.2, ready__own=0.05)
    pieces = advise(ledger(two, processors=PROCESSORS))
    assert [piece.at_stake for piece in pieces] == [round(0.3 * SECOND), round(0.2 * SECOND)]
    assert ["quota" in pieces[0].text, "other processes" in pieces[1].text] == [True, True]
    small = {f"ready__{part.partition('.')[2]}": 0.03 for part in READY_PARTS}
    (advice,) = advise(ledger(thread(user=0.5, **small), processors=PROCESSORS))
    assert advice.at_stake == round(0.03 * SECOND)


@pytest.mark.parametrize(
    ("cgroup", "said"),
    [
        ("/kubepods/burstable/pod1b2d3f40-1111-2222-3333-444455556666/" + "c" * 64, "pod 1b2d3f40-1111-2222"),
        ("/system.slice/nginx.service", "nginx.service"),
        ("/batch", "/batch"),
    ],
)
def test_whose_quota_is_used_up_is_named(cgroup: str, said: str) -> None:
    one = replace(thread(user=0.2, ready__throttled=0.6), cgroup=cgroup)
    brother = replace(thread(4713, 4713, user=0.2, ready__throttled=0.5), cgroup=cgroup)
    elsewhere = replace(thread(4714, 4714, user=0.2, ready__throttled=0.4), cgroup="/other")
    first, second = advise(ledger(one, brother, elsewhere, processors=PROCESSORS))
    assert f"the CPU quota of its control group (it is in {said}" in first.text
    assert "(1 more thread in 1 more process (a) alike)" in first.text
    assert "of its control group (it is in /other), or the runtime" in second.text
    (unknown,) = advise(ledger(thread(user=0.2, ready__throttled=0.6), processors=PROCESSORS))
    assert "was used up: its process has work for 0.8 processors; raise the quota" in unknown.text


def test_neighbours_are_named_with_the_pod_that_they_belong_to() -> None:
    def held(name: str, tid: int, share: float, cgroup: str | None = None) -> Cause:
        return Cause("ready", Behind.HOLDER, name, round(share * SECOND), 10, tid, tid, cgroup)

    causes = (
        held("cc1", 99, 0.1),
        held("cc1", 98, 0.05),
        held("backup", 97, 0.08, "/system.slice/backup.service"),
        held("little", 96, 0.01),
        Cause("ready", Behind.HOLDER, "a", round(0.05 * SECOND), 10, 4713, 4711),
        Cause("ready", Behind.HOLDER, "idle", round(0.01 * SECOND), 10),
    )
    waits = replace(thread(user=0.5, ready__neighbour=0.25, ready__own=0.05), causes=causes)
    (advice,) = advise(ledger(waits, thread(4713, 4711, user=0.1), processors=PROCESSORS))
    assert (
        "83% of that because other processes had it; meanwhile 2 threads cc1 had it for 60% of that time, "
        "backup (97) of backup.service had it for 32% of that time: "
    ) in advice.text
    assert advice.remedy is not None
    elsewhere = (held("cc1", 99, 0.1, "/one"), held("cc1", 98, 0.08, "/two"))
    (same,) = advise(ledger(replace(waits, causes=elsewhere), processors=PROCESSORS))
    assert "meanwhile 2 threads cc1 had it for 72% of that time: " in same.text, "one name is one group"
    mostly_own = replace(waits, states=thread(user=0.5, ready__neighbour=0.12, ready__own=0.3).states)
    own, others = advise(ledger(mostly_own, thread(4713, 4711, user=0.1), processors=PROCESSORS))
    assert "its own threads have work for" in own.text
    assert "more runs on 4 processors than they can take" in others.text
    assert own.remedy is others.remedy is None


def test_the_interrupt_that_had_the_processor_is_named() -> None:
    held = Cause("ready", Behind.HOLDER, "softirq.timer", round(0.2 * SECOND), 10)
    waits = replace(thread(user=0.5, ready__interrupt=0.3), causes=(held,))
    assert "interrupts had it, most in softirq.timer: the kernel's own tick" in only(waits).text


@given(ledgers())
def test_each_part_of_ready_is_spoken_of_where_it_passes_the_threshold(found: Ledger) -> None:
    everything = advise(found, Thresholds(most=1000, least_ns=0, interest=0, ready=0.25))
    stake = sum(piece.at_stake for piece in everything if piece.index == "ready")
    least = 0
    for one in found.threads:
        could = sum(one.times()[kind] for kind in Kind if kind not in (Kind.WAIT, Kind.UNKNOWN))
        parts = [one.states[part].time for part in READY_PARTS if part in one.states]
        least += sum(part for part in parts if part > 0.25 * could)
    assert stake >= least


def test_without_a_record_the_neighbours_are_those_who_ran() -> None:
    found = ledger(
        thread(user=0.5, ready=0.3), thread(99, 98, user=0.8), thread(97, 96, user=0.05), processors=PROCESSORS
    )
    (advice,) = advise(found)
    assert advice.remedy is not None
    assert advice.remedy.neighbours == (99,)


def test_a_lock_or_a_file_behind_the_time_is_named() -> None:
    lock = Cause("wait.futex", Behind.OBJECT, "mutex 0x7f01", round(0.6 * SECOND), 10)
    waker = Cause("wait.futex", Behind.WAKER, "worker", round(0.3 * SECOND), 10, 4720)
    advice = only(replace(thread(user=0.2, wait__futex=0.6), causes=(lock, waker)))
    assert "for a lock, 100% of it on mutex 0x7f01" in advice.text
    assert "50% of it until worker (4720) woke it" in advice.text
    had = Cause("wait.futex", Behind.HOLDER, "renewer", round(0.45 * SECOND), 10, 4721)
    advice = only(replace(thread(user=0.2, wait__futex=0.6), causes=(lock, waker, had)))
    assert "75% of it in waits that began while renewer (4721) had it" in advice.text
    file = Cause("poll.read.pipe", Behind.OBJECT, "pipe:[42]", round(0.1 * SECOND), 10)
    found = {"poll.read.pipe": Cell(round(0.4 * SECOND), 7), "user": Cell(round(0.6 * SECOND), 7)}
    advice = only(replace(thread(user=0.6), states=found, causes=(file,)))
    assert "most in read of pipe, 25% of it on pipe:[42]" in advice.text


def test_there_is_no_command_for_what_has_ended() -> None:
    for ended in (thread(user=0.5, kernel__read=0.4), thread(user=0.5, ready=0.4), thread(user=0.2, wait__pipe=0.7)):
        advice = only(replace(ended, end=SECOND))
        assert (advice.command, advice.undo, advice.remedy) == (None, None, None)
    advice = only(replace(thread(user=0.5, kernel__clone=0.4), end=SECOND), thread(4711, user=0.001))
    assert (advice.command or "").endswith("-p 4711"), "the process goes on without this thread"


@given(ledgers())
def test_a_command_has_every_id_and_none_of_what_has_ended(found: Ledger) -> None:
    gone = {t.pid for t in found.threads} - {t.pid for t in found.threads if t.end is None}
    for advice in advise(found, Thresholds(most=1000, least_ns=0, interest=0)):
        if advice.command is not None:
            assert "$" not in advice.command
            assert not {str(pid) for pid in gone} & set(re.findall(r"-p (\d+)", advice.command))


def test_a_devices_interrupts_are_sent_away_by_number_and_back() -> None:
    cells = {"idle": Cell(SECOND // 2), "irq.device": Cell(SECOND // 2)}
    here = Facilities(
        (0, 1, 2, 3),
        interrupts=(
            DeviceInterrupt(24, "eth0-rx", "0-3", {1: 10, 2: 500}, network=True),
            DeviceInterrupt(25, "nvme0q1", "0-3", {1: 70, 2: 90}),
        ),
    )
    found = ledger(processors=(Processor(1, SECOND, cells),))
    (advice,) = advise(found, None, here)
    assert "since it was booted most came from nvme0q1 (number 25)" in advice.text
    (measured,) = advise(found, None, replace(here, counted=True))
    assert "70 came from nvme0q1 (number 25)" in measured.text
    recorded = Cause("irq.device", Behind.OBJECT, "eth0-rx (irq 24)", SECOND // 4, 9)
    of_thread = replace(thread(user=0.5, irq__device=0.5), causes=(recorded,))
    of_one = next(piece for piece in advise(replace(found, threads=(of_thread,)), None, here) if piece.thread)
    assert "eth0-rx (number 24)" in of_one.text
    assert advice.command == "echo 0,2-3 | sudo tee /proc/irq/25/smp_affinity_list"
    assert advice.undo == "echo 0-3 | sudo tee /proc/irq/25/smp_affinity_list"
    (advice,) = advise(found, None, replace(here, processors=(1,)))
    assert (advice.command, advice.undo) == ("cat /proc/interrupts", None)


def test_only_what_the_machine_has_is_recommended() -> None:
    found = ledger(thread(user=0.5, memory=0.5))
    plain, divided, several = (
        advise(found, None, f)[0] for f in (Facilities(), Facilities(resctrl=True), Facilities(nodes=2))
    )
    assert "resctrl" not in plain.text
    assert "numactl" not in plain.text
    assert divided.command is not None
    assert "mount -t resctrl" in divided.command
    assert divided.undo == "sudo umount /sys/fs/resctrl"
    assert several.command is not None
    assert "numastat -p 4711" in several.command


HERE = Facilities((0, 1, 2, 3), interrupts=(DeviceInterrupt(24, "eth0-rx", "0-3", {2: 500}, network=True),))
APPLY = ("sudo headway advise --apply -a -p 4711", "sudo headway advise --undo")


def test_who_waits_for_memory_that_can_be_divided_has_a_remedy() -> None:
    used = [thread(tid, tid, user=0.5, memory=share) for tid, share in ((50, 0.2), (60, 0.4), (70, 0.01))]
    found = ledger(thread(user=0.4, memory=0.6), *used)
    remedy = Remedy("memory", 4711, 1, (60, 50))
    mounted = replace(HERE, resctrl=True, resctrl_mounted=True)
    for where in (mounted, replace(HERE, nodes=2)):
        advice = advise(found, None, where)[0]
        assert (advice.command, advice.undo) == APPLY
        assert advice.remedy == remedy
        assert advice.text.endswith("(2 more threads in 2 more processes (a × 2) alike)")
        assert "the command shows its plan, and asks" in advice.text
    first = advise(found, None, replace(HERE, resctrl=True))[0]
    assert first.remedy == remedy
    assert "mount -t resctrl" in (first.command or "")
    assert advise(found, None, HERE)[0].remedy is None


def test_who_loses_time_to_a_device_has_a_remedy_unless_it_needs_all_processors() -> None:
    cells = {"idle": Cell(SECOND // 2), "irq.device": Cell(SECOND // 10), "user": Cell(SECOND // 5)}
    processors = (Processor(2, SECOND, cells),)
    (advice,) = advise(ledger(thread(user=0.5, irq__device=0.3), processors=processors), None, HERE)
    assert "eth0-rx (number 24)" in advice.text
    assert (advice.command, advice.undo) == APPLY
    assert advice.remedy == Remedy("interrupts", 4711, 1, ())
    many = [thread(tid, 4711, user=0.6, irq__device=0.4) for tid in (1, 2, 3, 4)]
    (advice,) = advise(ledger(*many, processors=processors), None, HERE)
    assert advice.remedy is None
    assert "tee /proc/irq/24/smp_affinity_list" in (advice.command or "")
    ended = replace(thread(user=0.5, irq__device=0.3), end=SECOND)
    assert advise(ledger(ended, processors=processors), None, HERE)[0].remedy is None


def test_packets_that_no_device_sends_have_no_remedy() -> None:
    lost = ledger(thread(user=0.5, softirq__net_rx=0.3), processors=PROCESSORS)
    quiet = replace(HERE, interrupts=(replace(HERE.interrupts[0], counts={0: 0, 1: 0, 2: 0, 3: 0}),))
    assert advise(lost, None, quiet)[0].remedy is None
    assert advise(lost, None, replace(HERE, interrupts=()))[0].remedy is None
    disk = DeviceInterrupt(25, "virtio1-req.0", "0-3", {0: 9000, 1: 9000, 2: 9000, 3: 9000})
    (advice,) = advise(lost, None, replace(quiet, interrupts=(*quiet.interrupts, disk), counted=True))
    assert "virtio1" not in advice.text
    assert "counted no interrupt of a network device): packets between programs of this machine" in advice.text
    assert advice.remedy is None


def test_who_waits_behind_interrupts_has_the_same_remedy() -> None:
    held = (Cause("ready", Behind.HOLDER, "irq.device", round(0.3 * SECOND), 10, None),)
    waits = replace(thread(user=0.5, ready__interrupt=0.3), causes=held)
    (advice,) = advise(ledger(waits, processors=(Processor(2, SECOND, {"user": Cell(SECOND)}),)), None, HERE)
    assert advice.remedy == Remedy("interrupts", 4711, 1, ())
    timer = replace(waits, causes=(replace(held[0], name="irq.timer"),))
    assert advise(ledger(timer), None, HERE)[0].remedy is None


def test_polling_has_no_remedy_from_outside() -> None:
    (advice,) = advise(ledger(thread(user=0.5, poll__epoll_wait=0.4)), None, HERE)
    assert advice.index == "iopi"
    assert advice.remedy is None


def test_what_the_hypervisor_takes_is_the_machines_matter() -> None:
    advice = only(thread(user=0.9, stolen=0.1))
    assert (advice.thread, advice.index, advice.command) == (None, "stolen", "vmstat -w 1 5")
    assert advice.value == pytest.approx(0.1)


def test_a_processor_full_of_interrupts_is_named() -> None:
    cells = {"idle": Cell(SECOND // 2), "softirq.net_rx": Cell(SECOND // 4), "irq.eth0": Cell(SECOND // 4)}
    (advice,) = advise(ledger(processors=(Processor(3, SECOND, cells),)))
    assert advice.thread is None
    assert "processor 3 spent 50%" in advice.text


def busy(*threads: Thread, **shares: float) -> Ledger:
    """A ledger of two processors with these shares of states; what is left is ``idle``."""
    cells = {state.replace("__", "."): Cell(round(share * SECOND), 9) for state, share in shares.items()}
    cells["idle"] = Cell(SECOND - sum(c.time for c in cells.values()), 1)
    return ledger(*threads, processors=tuple(Processor(cpu, SECOND, cells) for cpu in range(2)))


def anomalies(found: Ledger, thresholds: Thresholds | None = None) -> list[Advice]:
    return [advice for advice in advise(found, thresholds) if advice.index == "system"]


@pytest.mark.parametrize(
    ("shares", "words", "command"),
    [
        ({"kernel__fault": 0.9, "user": 0.02}, "most in kernel.fault: programs wait for pages", "pressure/memory"),
        ({"kernel__thread": 0.9, "user": 0.02}, "a driver may have run away", None),
        ({"softirq__net_rx": 0.5, "irq__eth0": 0.4}, "most in softirq.net_rx: interrupts keep", "/proc/interrupts"),
        ({"kernel__read": 0.4, "kernel__write": 0.5}, "ask the kernel without end", None),
        ({"kernel": 0.9}, "most in kernel: programs ask", None),
        ({"overhead": 0.9}, "measuring takes it", "--level switches"),
    ],
)
def test_processors_that_are_busy_with_hardly_any_user_code_are_an_anomaly(
    shares: dict[str, float], words: str, command: str | None
) -> None:
    (advice,) = anomalies(busy(**shares))
    assert advice.thread is None
    assert words in advice.text
    assert (command or "") in (advice.command or "")
    assert (advice.command is None) == (command is None), "where no thread is known there is none to look at"
    assert advice.value > advice.threshold == 0.9
    assert advice.at_stake == 2 * round(sum(share for state, share in shares.items() if state != "user") * SECOND)


@pytest.mark.parametrize(
    "shares",
    [
        {"kernel__read": 0.75},  # not busy
        {"kernel__read": 0.8, "user": 0.15},
        {"kernel__read": 0.8, "poll__read": 0.15},  # a program that polls is user code, and has advice of its own
        {"kernel__read": 0.6, "unknown__unmeasured": 0.35},  # who knows what that is
        {"stolen": 1.0},
    ],
)
def test_it_takes_busy_processors_without_user_code_and_both_known(shares: dict[str, float]) -> None:
    assert anomalies(busy(**shares)) == []
    assert anomalies(ledger()) == []


def test_of_what_the_hypervisor_left_the_processors_are_busy() -> None:
    assert anomalies(busy(kernel__read=0.45, stolen=0.5))


def test_the_thread_that_takes_the_time_is_named() -> None:
    reclaims = replace(thread(70, 70, kernel__thread=0.8), name="kswapd0")
    works = replace(thread(71, 71, kernel__thread=0.7), name="kworker/0:1")
    (advice,) = anomalies(busy(reclaims, works, kernel__thread=0.9))
    assert "most in kernel.thread of kswapd0 (70): memory is short" in advice.text
    (advice,) = anomalies(busy(works, kernel__thread=0.9))
    assert "of kworker/0:1 (71): a kernel thread works without end" in advice.text
    assert advice.command is not None
    assert "-t 71 " in advice.command
    asks = replace(thread(72, 73, kernel__read=0.9), name="dd")
    (advice,) = anomalies(busy(asks, works, kernel__read=0.9))
    assert "of dd (72): programs ask" in advice.text
    assert advice.command == "sudo timeout 2 strace -f -c -p 73"


@given(ledgers())
def test_an_anomaly_is_never_more_than_the_processors_time(found: Ledger) -> None:
    for advice in anomalies(found, Thresholds(busy=0, system=0, interest=0, least_ns=0, most=1000)):
        assert 0 < advice.value <= 1
        assert 0 < advice.at_stake <= sum(processor.span for processor in found.processors)


def test_a_thread_that_mostly_waits_is_told_why_but_sleeping_is_its_own_wish() -> None:
    advice = only(thread(user=0.2, wait__pipe=0.7))
    assert (advice.index, advice.value, advice.command) == ("wait", 0.7, "ls -l /proc/4711/fd")
    assert advise(ledger(thread(user=0.01))) == ()


def woken(state: str, name: str, share: float, tid: int | None = None) -> Cause:
    return Cause(state, Behind.WAKER, name, round(share * SECOND), 10, tid)


@pytest.mark.parametrize(
    ("doing", "words"),
    [
        ({"wait.disk": 80, "user": 20}, "for a lock whose holder waits for a disk meanwhile, 100% of it on cache_lock"),
        ({"ready.own": 60, "user": 40}, "for a lock whose holder is ready meanwhile and gets no processor"),
        ({"user": 80, "wait.disk": 20}, "for a lock, 100% of it on cache_lock"),
        ({}, "for a lock, 100% of it on cache_lock"),
    ],
)
def test_what_the_holder_of_a_lock_does_decides_the_remedy(doing: dict[str, int], words: str) -> None:
    about = Cause("wait.futex", Behind.OBJECT, "cache_lock", round(0.6 * SECOND), 10)
    found = ledger(replace(thread(user=0.2, wait__futex=0.6), causes=(about,)))
    holder = LockHolder(99, "refresher", 100, 9, doing)
    lock = LockUse(found.threads[0].pid, "cache_lock", "wait.futex", 9, 100, 100, (holder,))
    (advice,) = advise(replace(found, uses=Uses(locks=(lock,))))
    assert words in advice.text
    if words == "for a lock, 100% of it on cache_lock":
        assert "hold it for a shorter time" in advice.text


@pytest.mark.parametrize(("name", "tid"), [("softirq.block", None), ("irq.device", None), ("jbd2/vda-8", 200)])
def test_a_wait_that_block_io_ended_is_one_for_the_disk(name: str, tid: int | None) -> None:
    disk = replace(thread(user=0.01, wait__disk=0.7), causes=(woken("wait.disk", name, 0.5, tid),))
    assert "it waits 70% of the time for the disk" in only(disk).text
    assert only(disk).command == "sudo timeout 2 strace -c -w -p 4712"
    fault = replace(thread(user=0.01, wait__fault=0.7), causes=(woken("wait.fault", name, 0.5, tid),))
    assert "for pages of its own memory to come from the disk" in only(fault).text
    major = replace(
        thread(user=0.1, kernel__fault__major=0.3, wait__fault=0.3), causes=(woken("wait.fault", name, 0.2, tid),)
    )
    assert "lock what it uses (mlock)" in only(major).text


@pytest.mark.parametrize("state", ["wait.disk", "wait.fault"])
def test_a_wait_that_another_thread_ended_is_put_down_to_it_and_not_to_the_disk(state: str) -> None:
    share = {state.replace(".", "__"): 0.7}
    causes = (woken(state, "daemon", 0.6, 99), woken(state, "softirq.block", 0.1))
    advice = only(replace(thread(user=0.2, **share), causes=causes))
    assert "86% of it until daemon (99) woke it: no disk keeps it" in advice.text
    assert "keep the data in memory" not in advice.text
    assert "mlock" not in advice.text
    idle = replace(thread(user=0.01, **share), causes=causes)
    assert advise(ledger(idle)) == (), "it rests until somebody has something for it"
    unseen = only(thread(user=0.01, **share))
    assert "see wh" in unseen.text
    assert "--why wait" in (unseen.command or "")


@pytest.mark.parametrize(
    ("state", "words"),
    [
        ("wait__mmap_lock", "for the lock of an address space (mmap_lock)"),
        ("wait__file_lock", "for the lock of a file or directory"),
        ("wait__kernel_lock", "for a lock of the kernel"),
    ],
)
def test_a_wait_for_a_lock_of_the_kernel_says_for_which(state: str, words: str) -> None:
    assert f"it waits 70% of the time {words}" in only(thread(user=0.01, **{state: 0.7})).text


def test_brief_threads_that_wait_for_mmap_lock_are_not_told_to_start_fewer() -> None:
    lives = SECOND // 50
    cells = {
        "kernel.munmap": Cell(lives // 5, 10),
        "wait.mmap_lock": Cell(lives * 3 // 5, 10),
        "user": Cell(lives // 5),
    }
    brief = Thread(1, 1, "a", 0, 0, lives, lives, lives, cells)
    texts = [advice.text for advice in advise(ledger(brief))]
    assert not any("begin and end" in text for text in texts)
    assert any("mmap_lock" in text for text in texts)


def test_faults_that_had_to_wait_are_not_put_down_to_the_disk_without_evidence() -> None:
    advice = only(thread(user=0.5, kernel__fault__major=0.4))
    assert "mmap_lock" in advice.text
    assert "mlock)" not in advice.text


def brief(tid: int, pid: int, state: str, count: int = 50) -> Thread:
    """A thread that ended after a twentieth of a second, and spent most of its time in one state."""
    lives = SECOND // 20
    cells = {"user": Cell(lives // 4), state: Cell(lives - lives // 4, count)}
    return Thread(tid, pid, "w", 0, 0, lives, lives, lives, cells)


@pytest.mark.parametrize("state", ["kernel.fault.minor", "kernel.munmap"])
def test_that_threads_begin_and_end_takes_the_time_of_that_or_many_programs(state: str) -> None:
    few = [brief(1, 1, state), brief(2, 1, state), brief(3, 1, state)]
    assert "begin and end" not in only(*few).text, "one program with its threads, as lockrs and ffmpeg"
    threads = [brief(tid, 1, state) for tid in range(2, 50)]
    assert "begin and end" not in only(*threads).text, "new threads have no new memory"
    programs = [brief(tid, tid, state) for tid in range(1, 12)]
    assert "begin and end" in only(*programs).text
    assert "; 0 threads began while it was measured, and 11 ended" in only(*programs).text
    for own in ("kernel.clone3", "kernel.execve", "kernel.exit_group"):
        assert "begin and end" in only(*(brief(tid, 1, own) for tid in (1, 2))).text


def sleeper(interrupt: str, sleeps: int, count: int = 1000) -> Thread:
    """A thread that timer interrupts hit, and that slept so often."""
    cells = {"user": Cell(SECOND // 2), interrupt: Cell(SECOND // 4, count), "wait.sleep": Cell(SECOND // 4, sleeps)}
    return replace(thread(), states=cells)


@pytest.mark.parametrize("state", ["irq.timer", "softirq.timer", "softirq.hrtimer"])
def test_timers_are_a_threads_own_where_it_slept_as_often(state: str) -> None:
    assert "its own timers run out often: sleep for longer" in only(sleeper(state, 900)).text
    others = only(sleeper(state, 10)).text
    assert "sleep for longer" not in others
    assert "timers of all programs" in others
    timed = (Cause("wait.epoll", Behind.WAKER, "irq.timer", SECOND // 4, 900),)
    assert "sleep for longer" in only(replace(sleeper(state, 0), causes=timed)).text, "waits time out"


def on_disk(waits: int, **calls: int) -> Thread:
    """A thread that waits for the disk so often, and makes these calls."""
    cells = {f"kernel.{call}": Cell(SECOND // 1000, count) for call, count in calls.items()}
    cells |= {"user": Cell(SECOND // 4), "wait.disk": Cell(SECOND * 7 // 10, waits)}
    return replace(thread(), states=cells, causes=(woken("wait.disk", "softirq.block", 0.7),))


def test_reads_and_writes_that_wait_for_the_disk_are_told_apart_by_the_calls() -> None:
    forced = only(on_disk(4000, fdatasync=2000, pread64=9000)).text
    assert "for the disk, to which it forces what it wrote" in forced
    assert "read ahead" not in forced
    assert "for the disk to read" in only(on_disk(4000, pread64=9000)).text
    for unclear in (on_disk(4000), on_disk(4000, fdatasync=20, pread64=9000)):
        assert "see in which calls" in only(unclear).text


def in_turns(name: str, *tids: int, by: int | None = None) -> list[Thread]:
    """Threads that wait for most of the time for a futex, and are woken by the next one of them, or by another."""
    found = []
    for place, tid in enumerate(tids):
        waker = by if by is not None else tids[(place + 1) % len(tids)]
        about = Cause("wait.futex", Behind.OBJECT, name, round(0.62 * SECOND), 10)
        found.append(
            replace(
                thread(tid, 4711, user=0.03, wait__futex=0.62),
                causes=(about, woken("wait.futex", "worker", 0.62, waker)),
            )
        )
    return found


def test_a_thread_that_waits_for_a_lock_does_not_rest() -> None:
    three = in_turns("app: words", 1, 2, 3)
    advice = only(*three)
    assert "it waits 62% of the time for a lock, 100% of it on app: words" in advice.text
    assert "(2 more threads of this process alike)" in advice.text
    assert advice.at_stake == 3 * round(0.62 * SECOND)
    assert "app: cache_lock" in only(*in_turns("app: cache_lock", 1, 2, by=9)).text
    for idle in ("app: queue", "app: clock", "app: block"):
        assert advise(ledger(*in_turns(idle, 1, 2, 3, by=9))) == (), "a pool whose work comes from elsewhere rests"


def test_the_share_of_a_loss_that_is_not_known_is_one_of_what_was_seen() -> None:
    bound = replace(
        ledger(thread(user=0.5, kernel__futex=0.4)),
        precision=Precision(effective=Quality.BOUND, memory=Quality.UNAVAILABLE),
    )
    (advice,) = advise(bound)
    assert "100% of the lost time that was seen is in the kernel" in advice.text
    assert advice.of_seen
    assert "of the lost time seen, threshold" in "".join(
        text for line in what_would_help([advice], 200, figures=True) for text, _ in line
    )
    (known,) = advise(ledger(thread(user=0.5, kernel__futex=0.4)))
    assert "100% of the lost time is in the kernel" in known.text
    assert not known.of_seen


def test_a_thread_of_the_kernel_makes_no_calls() -> None:
    submits = only(replace(thread(kernel__thread=0.9), name="iou-sqp-4711"))
    assert "IORING_SETUP_SQPOLL" in submits.text
    in_vain = only(replace(thread(poll__io_uring=0.9), name="iou-sqp-4711"))
    assert "IORING_SETUP_SQPOLL" in in_vain.text
    other = only(replace(thread(kernel__thread=0.9), name="kworker/0:1"))
    for advice in (submits, other):
        assert "strace" not in (advice.command or "")
        assert "perf record" in (advice.command or "")


def test_few_threads_are_recommended_only_where_more_runs_than_the_processors_can_take() -> None:
    busy_ones = tuple(replace(p, states={"user": Cell(SECOND)}) for p in PROCESSORS[:2])
    idle_ones = tuple(replace(p, states={"user": Cell(SECOND // 4), "idle": Cell(SECOND * 3 // 4)}) for p in busy_ones)
    threads = [thread(1, 1, user=0.6, ready__neighbour=0.4), thread(2, 1, user=0.9)]
    assert "more runs on 2 processors than they can take" in advise(ledger(*threads, processors=busy_ones))[0].text
    (kept,) = advise(ledger(*threads, processors=idle_ones))
    assert (
        "though the processors were idle for 75% of their time: too many threads want one at the same moments"
        in kept.text
    )
    assert "start fewer" not in kept.text


def test_a_processor_that_stays_idle_is_not_on_its_way_out_of_an_idle_state() -> None:
    throttled = {"user": Cell(SECOND // 2, 10), "ready.wakeup": Cell(SECOND // 2, 10)}
    advice = only(replace(thread(), states=throttled))
    assert "it was idle and did not take it, 50.0 ms each time: something keeps it from running" in advice.text


def test_single_calls_that_take_long_are_not_many_calls() -> None:
    long = {"user": Cell(SECOND // 2, 10), "kernel.pwrite64": Cell(SECOND // 2, 500)}
    assert "1,000 µs each time: single calls take long" in only(replace(thread(), states=long)).text
    forced = {"user": Cell(SECOND // 2, 10), "kernel.fsync": Cell(SECOND // 2, 1)}
    assert "small write" not in only(replace(thread(), states=forced)).text


def test_threads_of_a_process_with_the_same_cause_are_spoken_of_once() -> None:
    many = [thread(tid, 4711, user=0.5, kernel__futex=0.3 + tid / 1000) for tid in range(1, 9)]
    advice = only(*many)
    assert advice.thread == 8
    assert "(7 more threads of this process alike)" in advice.text


def test_every_one_of_very_many_threads_is_counted() -> None:
    many = [thread(tid, 4711, user=0.5, kernel__futex=0.3) for tid in range(1, 2001)]
    advice = only(*many)
    assert "(1,999 more threads of this process alike)" in advice.text
    assert (advice.at_stake, advice.alike) == (2000 * round(0.3 * SECOND), 1999)


def test_a_remedy_is_for_one_process_and_each_has_its_own_if_asked() -> None:
    found = ledger(*(thread(tid, tid, user=0.4, ready=0.3) for tid in (10, 11, 12)), processors=PROCESSORS)
    (advice,) = advise(found)
    assert advice.remedy is not None
    assert advice.remedy.pid == advice.thread == 10
    assert "(2 more threads in 2 more processes (a × 2) alike)" in advice.text
    apart = advise(found, by_process=True)
    assert [piece.remedy.pid for piece in apart if piece.remedy] == [10, 11, 12]
    assert sum(piece.at_stake for piece in apart) == advice.at_stake


def test_processes_of_one_name_that_want_more_processors_than_there_are_are_spoken_of_together() -> None:
    many = [replace(thread(tid, tid, user=0.5, ready=0.4), name="postgres") for tid in range(10, 20)]
    (advice,) = advise(ledger(*many, processors=PROCESSORS))
    words = "the 10 processes postgres together have work for 9.0 processors: start fewer, or let fewer work at a time"
    assert words in advice.text
    assert "(9 more threads in 9 more processes (postgres × 9) alike)" in advice.text
    assert advice.remedy is not None
    assert advice.command == "taskset -acp 10", "one of ten has no claim to a processor of its own"
    few = [replace(thread(tid, tid, user=0.1, ready=0.1), name="postgres") for tid in range(10, 22)]
    (together,) = advise(ledger(*few, processors=PROCESSORS))
    assert "the 12 processes postgres together have work for 2.4 processors: run less beside them" in together.text
    assert "for this" not in together.text
    others = [replace(one, name=f"other{one.tid}") for one in many]
    assert "other processes want the same ones" in advise(ledger(*others, processors=PROCESSORS))[0].text


def test_behind_others_is_one_cause_whatever_helps_the_process_that_is_named() -> None:
    cc1 = [replace(thread(tid, tid, user=0.1, ready=0.85), name="cc1") for tid in range(10, 19)]
    ended = replace(thread(30, 30, user=0.1, ready=0.7), end=SECOND, name="sh")
    other = replace(thread(31, 31, user=0.1, ready=0.6), name="postgres")
    itself = [thread(tid, 40, user=0.4, ready=0.55) for tid in (40, 41, 42)]
    found = advise(ledger(*cc1, ended, other, *itself, processors=PROCESSORS[:2]))
    assert [piece.name for piece in found] == ["cc1", "a"]
    assert "(10 more threads in 10 more processes (cc1 × 8, postgres, sh) alike)" in found[0].text
    assert "its own threads have work for 2.9 processors" in found[1].text


def test_what_beginning_and_ending_costs_brief_threads_is_one_cause() -> None:
    def brief(tid: int, state: str, lives: int) -> Thread:
        cells = {"user": Cell(lives // 4), state: Cell(lives // 2, 1), "kernel.brk": Cell(lives // 4, 3)}
        return Thread(tid, tid, "sh", 0, 0, lives, lives, lives, cells)

    lives = SECOND // 50
    states = ("kernel.fault", "kernel.execve", "kernel.exit_group", "kernel.munmap")
    every = [brief(tid, state, lives) for tid, state in enumerate(3 * states, 1)]
    starter = thread(99, 99, user=0.1, kernel__clone=0.2)
    advice = only(*every, starter)
    assert advice.thread == 99
    assert "processes and threads begin and end" in advice.text
    assert "(12 more threads in 12 more processes (sh × 12) alike)" in advice.text
    slow = replace(every[0], until=SECOND, end=SECOND, states={**every[0].states, "ready": Cell(SECOND - lives)})
    assert "begin and end" in advise(ledger(slow, *every[1:], starter), Thresholds(ready=1))[0].text
    assert "huge pages" in only(brief(1, "kernel.fault", SECOND // 2)).text, "a thread that lives longer has memory"
    assert "kernel.exit_group (once)" in only(brief(1, "kernel.exit_group", lives), *every[3:]).text


def test_short_processes_with_the_same_cause_are_spoken_of_once_if_together_they_matter() -> None:
    shells = [replace(thread(tid, tid, user=0.002, kernel__fault=0.003), name="sh") for tid in range(1, 41)]
    other = replace(thread(99, 99, user=0.001, kernel__fault=0.004), name="make")
    advice = only(*shells, other)
    assert advice.thread == 99
    assert "(40 more threads in 40 more processes (sh × 40) alike)" in advice.text
    assert (advice.at_stake, advice.alike) == (sum(round(0.003 * SECOND) for _ in shells) + round(0.004 * SECOND), 40)
    assert advise(ledger(*shells[:3])) == ()


def test_advice_has_the_name_of_its_thread_whoever_had_the_number_later() -> None:
    first = replace(thread(10, 10, user=0.4, kernel__fault=0.5), name="compiler")
    later = replace(thread(10, 10, user=0.9), name="shell", birth=SECOND // 2)
    assert [piece.name for piece in advise(ledger(first, later))] == ["compiler"]
    assert [piece.name for piece in advise(ledger(later, first))] == ["compiler"]


@pytest.mark.parametrize("wait", ["futex", "pipe", "net"])
def test_a_thread_that_hardly_works_rests_where_it_waits(wait: str) -> None:
    assert advise(ledger(thread(user=0.05, **{f"wait__{wait}": 0.9}))) == ()
    advice = only(thread(user=0.2, **{f"wait__{wait}": 0.7}))
    assert (advice.index, advice.at_stake) == ("wait", round(0.7 * SECOND))
    crowded = advise(ledger(thread(user=0.05, ready=0.3, **{f"wait__{wait}": 0.6})))
    assert [piece.index for piece in crowded] == ["ready"], "it does not work while it is ready"


@given(ledgers())
def test_the_time_at_stake_is_that_of_all_threads_with_the_cause(found: Ledger) -> None:
    least = Thresholds().interest * found.window.duration
    everything = advise(found, Thresholds(most=1000, least_ns=0))
    kinds = {"mpi": Kind.MEMORY, "kpi": Kind.KERNEL, "iopi": Kind.POLL, "ready": Kind.READY}
    for index, kind in kinds.items():
        pieces = [piece for piece in everything if piece.index == index and piece.thread is not None]
        assert sum(piece.at_stake for piece in pieces) <= sum(found.times(thread)[kind] for thread in found.threads)
        parts = len(READY_PARTS) + 1 if index == "ready" else 1
        assert sum(1 + piece.alike for piece in pieces) <= parts * len(found.threads)
    assert all(piece.at_stake >= least for piece in everything)
    every = advise(found, Thresholds(most=1000, least_ns=0, interest=0))
    assert [piece for piece in every if piece.at_stake >= least] == list(everything)


def test_a_thread_that_hardly_ran_is_not_spoken_of() -> None:
    assert advise(ledger(thread(kernel__read=0.005))) == ()


def test_the_machine_has_no_shell() -> None:
    (advice,) = advise(ledger(thread(user=0.5, memory=0.5), source="machine"))
    assert advice.command is None


def test_spinning_that_samples_found_is_not_the_programs_mark() -> None:
    where = Cause("poll.spin", Behind.OBJECT, "pthread_spin_lock (libc.so.6)", SECOND // 2, 64)
    found = replace(
        thread(user=0.5, poll__spin=0.5), causes=(where,), sampled={"poll.spin": Estimate(SECOND // 2, 500)}
    )
    (advice,) = advise(ledger(found), None, HERE)
    assert (
        "most in poll.spin, 100% of it on pthread_spin_lock (libc.so.6): it waits in a loop of its own" in advice.text
    )


def test_polling_that_the_machines_latch_saw_is_not_the_programs_mark() -> None:
    saw = Cause("poll.block", Behind.OBJECT, "status register 0x10010010", SECOND // 2, 64)
    (advice,) = advise(ledger(replace(thread(user=0.5, poll__block=0.5), causes=(saw,)), source="machine"))
    assert advice.text == (
        "100% of the lost time is polling, most in poll.block (the poll latch saw status register 0x10010010 not "
        "ready, 64 times): let the device's interrupt say when it is ready, and do something else, or wait off the "
        "processor, until then"
    )
    (advice,) = advise(ledger(thread(user=0.5, poll__block=0.5), source="machine"))
    assert "as the program marks it" in advice.text
    of_machine = replace(ledger(thread(user=0.5, poll__block=0.5), source="recording"), time_unit="cycles")
    (advice,) = advise(of_machine)
    assert "most in poll.block: " in advice.text, "a recording does not tell the latch from a mark"


@given(ledgers())
def test_advice_is_bounded_worst_first_and_about_threads_that_are_there(found: Ledger) -> None:
    everything = advise(found, Thresholds(most=1000))
    assert advise(found) == everything[: Thresholds().most]
    assert len({(a.thread, a.index, a.text) for a in everything}) == len(everything)
    by_tid = {t.tid: t for t in found.threads}
    kinds = {"mpi": Kind.MEMORY, "kpi": Kind.KERNEL, "iopi": Kind.POLL, "ready": Kind.READY}
    lost = []
    for advice in everything:
        assert advice.value > advice.threshold
        assert advice.value <= 1
        if advice.thread is None:
            continue
        at = by_tid[advice.thread]
        if advice.index in kinds:
            lost.append(advice.at_stake)
            parts = (
                [cell.time for state, cell in at.states.items() if kind_of(state) is Kind.READY and cell.time]
                if advice.index == "ready"
                else [found.times(at)[kinds[advice.index]]]
            )
            assert advice.at_stake >= min(parts)
        if advice.command is not None and "{" in advice.command:
            raise AssertionError(advice.command)
    assert lost == sorted(lost, reverse=True)


@given(ledgers())
def test_the_order_of_the_threads_does_not_matter(found: Ledger) -> None:
    assert advise(found) == advise(replace(found, threads=found.threads[::-1]))


def test_stalls_for_memory_that_hardware_counted_are_worth_a_word() -> None:
    second = 10**9
    cells = {"user": Cell(second, 1, 10**9, 10**9, 8 * 10**8, 7 * 10**8)}
    one = Thread(7, 7, "a", 0, 0, None, second, second, cells)
    counted = dict.fromkeys(("cycles", "stall_cycles", "memory_stall_cycles"), Counted(1, 1))
    found = Ledger("bpf", Window(0, second), (one,), unit="cycles", counted=counted)
    assert [piece.index for piece in advise(found)] == ["mpi"]
    assert advise(found)[0].value == pytest.approx(7 / 8)


def test_threads_that_have_little_work_are_not_told_to_be_fewer() -> None:
    held = Cause("ready", Behind.HOLDER, "a", round(0.05 * SECOND), 100, tid=2)
    little = replace(thread(1, 1, user=0.05, ready=0.05), causes=(held,))
    other = thread(2, 1, user=0.06)
    (advice,) = advise(ledger(little, other, processors=PROCESSORS))
    assert "its own threads have work for 0.2 processors on average, but want them at the same moments" in advice.text
    assert "fewer" not in advice.text.replace("wake fewer at once", "")
