"""The types of the compiled reading loop in ``_procfs.pyx``."""

from collections.abc import Callable

RUNNABLE: int
WAITING: int
UNREADABLE: int
WAIT: int
FIRST_REASONS: tuple[str, ...]
WHOLE_SHARE: int

def parse_stat(text: bytes) -> tuple[bytes, str, int, int, int, int, int, int] | None: ...
def parse_schedstat(text: bytes) -> tuple[int, int, int] | None: ...
def parse_syscall(text: bytes) -> tuple[int, int]: ...

class ThreadAccount:
    def __init__(
        self,
        start: int,
        run: int = 0,
        ready: int = 0,
        switches: int = 0,
        user: int = 0,
        system: int = 0,
        tick: int = 4_000_000,
        runnable: bool = True,
    ) -> None: ...
    def advance(
        self,
        now: int,
        run: int,
        ready: int,
        switches: int,
        user: int,
        system: int,
        share: int,
        condition: int,
        reason: int,
    ) -> None: ...
    def restart(self, run: int, ready: int, switches: int, user: int, system: int) -> None: ...
    def close(self, limit: int) -> None: ...
    @property
    def start(self) -> int: ...
    @property
    def span(self) -> int: ...
    @property
    def settled(self) -> bool: ...
    def states(self, names: list[str]) -> dict[str, int]: ...

class Task:
    account: ThreadAccount
    tid: int
    pid: int
    birth: int
    ended: bool
    in_kernel: bool
    @property
    def name(self) -> str: ...
    @property
    def exact(self) -> bool: ...

class ObservedProcess:
    pid: int
    ppid: int
    whole: bool
    gone: bool
    @property
    def accounted(self) -> int: ...

class Scanner:
    names: list[str]
    processes: dict[int, ObservedProcess]
    tasks: dict[int, Task]
    looks: int
    ends_unseen: int
    hidden: set[int]
    def __init__(
        self,
        root: int,
        *,
        tick: int,
        clock_tick: int,
        boot_offset: int,
        start: int,
        budget: int,
        schedstat: bool,
        follow_single: bool,
        reason_of_call: Callable[[int], str | None],
        reason_of_wchan: Callable[[bytes], str | None],
    ) -> None: ...
    def add_process(
        self, pid: int, now: int, *, opening: bool, absent: int = 0, all_children: bool = False
    ) -> bool: ...
    def add_thread(self, pid: int, tid: int, now: int, *, opening: bool) -> bool: ...
    def stat(self, pid: int) -> tuple[bytes, str, int, int, int, int, int, int] | None: ...
    def ids(self, pid: int = 0) -> list[int]: ...
    def named(self, pid: int, name: bytes, prefix: bool) -> list[int]: ...
    def scan(self, now: int, *, created: bool) -> None: ...
    @property
    def unseen(self) -> int: ...
    def take_ended(self) -> list[Task]: ...
    def take_children(self) -> list[int]: ...
    def take_finished(self) -> list[ObservedProcess]: ...
    def close(self) -> None: ...
