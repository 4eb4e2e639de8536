"""``headway serve`` as a process: bad input, what it answers, who it is, and how it ends."""

from __future__ import annotations

import base64
import http.client
import http.server
import json
import os
import pwd
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import click
import pytest
from tests.compiling import Compile, script

from headway.commands.serve import command
from headway.errors import HeadwayError
from headway.serving.addresses import listen, parse_address
from headway.serving.token import acl_lets_others, read_token

parser = pytest.importorskip("prometheus_client.openmetrics.parser", reason="needs prometheus_client")

MAIN = "from headway.commands import main; main()"
HEADWAY = [sys.executable, "-c", MAIN]
LISTEN = ["serve", "--listen", "127.0.0.1:0"]
SERVE = [*HEADWAY, *LISTEN]
SOURCES = [pytest.param("bpf", marks=pytest.mark.root), "proc"]
OPEN = "application/openmetrics-text; version=1.0.0"
each_source = pytest.mark.parametrize("source", SOURCES)
rather_proc = pytest.mark.parametrize(
    "source", [pytest.param("bpf", marks=[pytest.mark.root, pytest.mark.exhaustive]), "proc"]
)
"""What the source is has little to do with it."""


PLACE = {"k8s_pod_uid", "container_id", "systemd_unit_name", "systemd_user_unit_name", "systemd_slice_name", "cgroup"}
"""Labels that depend on where the tests run."""

Samples = dict[str, list[tuple[dict[str, str], float]]]


class Running:
    """A server that has said where it serves."""

    def __init__(self, process: subprocess.Popen[str], said: list[str]) -> None:
        self.process, self.said = process, said
        found = re.search(r"serving http://127\.0\.0\.1:(\d+)/", said[-1])
        assert found, said
        self.port = int(found[1])

    def get(self, path: str = "/metrics", **headers: str) -> tuple[http.client.HTTPResponse, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=200)
        try:
            connection.request("GET", path, headers={name.replace("_", "-"): text for name, text in headers.items()})
            answer = connection.getresponse()
            return answer, answer.read()
        finally:
            connection.close()

    def samples(self) -> Samples:
        answer, body = self.get(Accept=OPEN)
        assert answer.status == 200
        found: Samples = {}
        for family in parser.text_string_to_metric_families(body.decode()):
            for sample in family.samples:
                found.setdefault(sample.name, []).append((sample.labels, sample.value))
        return found

    def listener(self) -> int:
        """The id of the process that listens."""
        (pid,) = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()[:1]
        return int(pid)


def the_rest(process: subprocess.Popen[str]) -> str:
    """What it still says, of which a line may have been read ahead; it and its command do not outlive the test."""
    assert process.stderr is not None
    late = threading.Timer(200, os.killpg, (process.pid, signal.SIGKILL))
    late.start()
    try:
        rest = process.stderr.read()
        process.wait()
    finally:
        late.cancel()
    return rest


@contextmanager
def serving(
    *words: str,
    before: Callable[[], None] | None = None,
    env: dict[str, str] | None = None,
    first: str = "pass",
) -> Iterator[Running]:
    """A server with these options, which does something first; at the end it is told to stop, and stops well."""
    process = subprocess.Popen(
        [sys.executable, "-c", f"{first}; {MAIN}", *LISTEN, *words],
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=before,
        env={**os.environ, **(env or {})},
        process_group=0,
    )
    assert process.stderr is not None
    said: list[str] = []
    try:
        while not said or "serving http" not in said[-1]:
            line = process.stderr.readline()
            assert line, said
            said.append(line)
        yield Running(process, said)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
        rest = the_rest(process)
        said += rest.splitlines()
    assert "Traceback" not in rest, rest


def refused(*words: str, status: int = 125) -> str:
    """One sentence on standard error; which."""
    done = subprocess.run([*HEADWAY, "serve", *words], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == status, done.stderr
    assert done.stderr.startswith("headway: ")
    assert done.stderr.count("\n") == 1
    assert done.stdout == ""
    return done.stderr


@contextmanager
def program(*words: str) -> Iterator[int]:
    process = subprocess.Popen(words or ("sleep", "600"))
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


# ---- bad input ----


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ("", "no address"),
        ("9777", "no address"),
        ("localhost", "no address"),
        ("::1:9777", "no address"),
        ("127.0.0.1:", "no address"),
        ("127.0.0.1:99999", "no port"),
        ("127.0.0.1:x", "no address"),
        ("http://localhost:1", "no address"),
        ("a b:1", "no address"),
        ("\x1b[31m:1", "no address"),
        ("[zz]:1", "no address"),
    ],
)
def test_what_is_no_address_is_refused(where: str, said: str) -> None:
    with pytest.raises(HeadwayError, match=said) as caught:
        parse_address(where)
    assert str(caught.value).isprintable()


def test_addresses_as_they_are_written() -> None:
    assert str(parse_address("localhost:1")) == "localhost:1"
    assert str(parse_address("[::1]:0")) == "[::1]:0"
    assert parse_address(":9777").host == "::"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "say what to measure"),
        (["-a", "--listen", "nonsense"], "no address"),
        (["-a", "--listen", "no-such-host.invalid:1"], "no host"),
        (["-a", "--why", "wait"], "--why"),
        (["-a", "-I", "1"], "no length of time"),
        (["-a", "--max-series", "3"], "not in the range"),
        (["-a", "--metric-expiration", "-1"], "no length of time"),
        (["-a", "--otlp", "localhost:4318"], "not the address of a collector"),
        (["-a", "--user", "no-such-user-here"], "no user"),
        (["-a", "--listen", "0.0.0.0:0"], "--token-file"),
        (["-a", "--listen", ":0"], "--token-file"),
        (["-a", "--listen", "[::]:0"], "--token-file"),
        (["-p", "1", "--", "true"], "not both"),
        (["-a", "--when", "redy > 20 %"], "ready is one"),
        (["-a", "--when", "ready > 20 %", "--level", "calls"], "leave out --level"),
        (["-a", "--when", "ready > 20 %", "--source", "proc"], "/proc has one level"),
    ],
)
def test_bad_input_is_refused_in_one_sentence(words: list[str], said: str) -> None:
    with pytest.raises((HeadwayError, click.ClickException)) as caught:
        command.main(words, standalone_mode=False)
    sentence = caught.value.format_message() if isinstance(caught.value, click.ClickException) else str(caught.value)
    assert said in sentence
    assert sentence.isprintable()


def test_an_address_that_is_in_use_or_not_ours_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "is in use" in refused("-a", "--listen", f"127.0.0.1:{port}")
    with pytest.raises(HeadwayError, match="no address of this machine"):
        listen(parse_address("203.0.113.1:9777"), guarded=True)
    with pytest.raises(HeadwayError, match="can be reached from other machines"):
        listen(parse_address("203.0.113.1:9777"), guarded=False)


@rather_proc
def test_what_is_not_there_is_said_and_nobody_left_listening(source: str) -> None:
    assert "no process 4194303" in refused("--source", source, "-p", "4194303", "--listen", "127.0.0.1:0")


@pytest.mark.skipif(not socket.has_ipv6, reason="needs IPv6")
def test_a_name_stands_for_all_its_addresses_at_one_port() -> None:
    sockets = listen(parse_address("localhost:0"), guarded=False)
    try:
        assert len({one.getsockname()[1] for one in sockets}) == 1
    finally:
        for one in sockets:
            one.close()


def token(folder: Path, words: bytes = b"correct-horse-battery-staple\n", mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(words)
    path.chmod(mode)
    return path


@pytest.mark.parametrize(
    "words", [b"", b"short", b"two words here, long enough", b"x" * 5000, b"\xff" * 32, b"a" * 20 + b"\n" + b"b" * 20]
)
def test_what_is_no_token_is_refused(tmp_path: Path, words: bytes) -> None:
    with pytest.raises(HeadwayError, match="has no token"):
        read_token(str(token(tmp_path, words)))


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(HeadwayError, match="chmod 600"):
        read_token(str(token(tmp_path, mode=0o640)))
    with pytest.raises(HeadwayError, match="cannot be opened"):
        read_token(str(tmp_path / "none"))
    with pytest.raises(HeadwayError, match="is not a file"):
        read_token(str(tmp_path))
    assert read_token(str(token(tmp_path))) == b"correct-horse-battery-staple"


def acl(*entries: tuple[int, int, int]) -> bytes:
    """An access control list as the kernel shows it: tag, permissions, id."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


OWNER, MASK, NOBODY_ELSE = (1, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), ((4, 0, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))


@pytest.mark.parametrize(
    ("listed", "others"),
    [
        (acl(OWNER, (2, 4, 1000), MASK, *NOBODY_ELSE), False),  # as systemd has it
        (acl(OWNER, (2, 4, 0), MASK, *NOBODY_ELSE), False),
        (acl(OWNER, (2, 4, 1001), MASK, *NOBODY_ELSE), True),
        (acl(OWNER, (2, 4, 1000), (2, 4, 1001), MASK, *NOBODY_ELSE), True),
        (acl(OWNER, (2, 4, 1000), (8, 4, 50), MASK, *NOBODY_ELSE), True),
        (acl(OWNER, (2, 4, 1000), MASK, (4, 4, 0xFFFFFFFF)), True),
        (acl(OWNER, (2, 4, 1000), MASK, (32, 4, 0xFFFFFFFF)), True),
        (acl(OWNER, (2, 4, 1000), (64, 4, 0)), True),
        (b"", True),
        (acl(OWNER)[:-1], True),
        (b"\3\0\0\0" + acl(OWNER)[4:], True),
    ],
)
def test_whom_an_access_control_list_lets_read_a_token(listed: bytes, others: bool) -> None:
    assert acl_lets_others(listed, 1000) is others


def test_a_token_that_only_we_are_listed_for_is_taken(tmp_path: Path) -> None:
    path = token(tmp_path)
    group, other = NOBODY_ELSE
    for uid, refused in ((os.geteuid(), False), (4711, True)):
        path.chmod(0o600)
        try:
            os.setxattr(path, "system.posix_acl_access", acl(OWNER, (2, 4, uid), group, MASK, other))
        except OSError as error:
            pytest.skip(f"this file system has no access control lists: {error}")
        assert path.stat().st_mode & 0o777 == 0o440
        if refused:
            with pytest.raises(HeadwayError, match="chmod 600"):
                read_token(str(path))
        else:
            assert read_token(str(path)) == b"correct-horse-battery-staple"


# ---- what it answers ----


def times(samples: Samples) -> dict[tuple[tuple[str, str], ...], float]:
    return {tuple(labels.items()): value for labels, value in samples["headway_thread_state_seconds_total"]}


def index(samples: Samples, name: str) -> float:
    """Of all threads together."""
    return sum(value for labels, value in samples["headway_thread_index_seconds_total"] if labels["index"] == name)


@each_source
def test_what_a_process_does_is_served_and_only_grows(source: str) -> None:
    with program(*script("busy")) as pid, serving("--source", source, "-p", str(pid), "-I", "50") as server:
        first = server.samples()
        before, second = times(first), first
        deadline = time.monotonic() + 200
        while sum(times(second).values()) <= sum(before.values()) or not index(second, "epi"):
            assert time.monotonic() < deadline
            time.sleep(0.05)
            second = server.samples()
            after = times(second)
            assert all(after[labels] >= value for labels, value in before.items())
        live = json.loads(server.get("/live.json")[1])
    assert {labels["pid"] for labels, _ in first["headway_thread_state_seconds_total"]} == {str(pid)}
    assert second["headway_threads"][0][1] == 2
    assert dict(second["headway_build_info"][0][0])["source"] == source
    assert {labels["process"] for labels, _ in second["headway_process_cpu_seconds_total"]} == {"measuring", "serving"}
    assert live["rows"][0]["labels"]["pid"] == str(pid)
    if source == "bpf":
        assert "headway_processor_state_seconds_total" in second


@rather_proc
def test_threads_by_themselves_and_by_names(source: str) -> None:
    with program() as pid:
        with serving("--source", source, "-p", str(pid), "--by", "thread", "--counts") as server:
            found = server.samples()
            ((labels, living),) = found["headway_threads"]
            labels = {name: value for name, value in labels.items() if name not in PLACE}
            assert (labels, living) == ({"pid": str(pid), "process": "sleep", "thread": "sleep", "tid": str(pid)}, 1)
            assert ("headway_thread_state_entries_total" in found) == (source == "bpf")
        with serving("--source", source, "-p", str(pid), "--by", "name") as server:
            assert server.samples()["headway_threads"] == [({"process": "sleep", "thread": "sleep"}, 1)]


POD, CONTAINER = "1b1b4d9c-6c39-4f0e-9a6b-2f0f3c7d5a10", "3f1c5e0b" * 8


@contextmanager
def a_pod() -> Iterator[Path]:
    """A container's control group as the kubelet and containerd make it, made for a while below one of ours."""
    mounts = [line.split() for line in Path("/proc/mounts").read_text().splitlines()]
    top = next((Path(at) for _, at, kind, *_ in mounts if kind == "cgroup2"), None)
    if top is None:
        pytest.skip("no cgroup v2 hierarchy is mounted")
    names = [f"headway-pod-{os.getpid()}", f"kubepods-pod{POD.replace('-', '_')}.slice"]
    folders = [top.joinpath(*names[:n]) for n in (1, 2)]
    folders.append(folders[-1] / f"cri-containerd-{CONTAINER}.scope")
    try:
        folders[-1].mkdir(parents=True)
    except OSError as error:
        pytest.skip(f"no control group can be made: {error}")
    try:
        yield folders[-1]
    finally:
        for folder in reversed(folders):
            for _ in range(100):  # what was in it takes a moment to be gone
                with suppress(OSError):
                    folder.rmdir()
                    break
                time.sleep(0.05)


@pytest.mark.parametrize(
    ("source", "by"),
    [
        pytest.param("bpf", "container", marks=pytest.mark.root),
        pytest.param("bpf", "process", marks=[pytest.mark.root, pytest.mark.exhaustive]),
        pytest.param("proc", "container", marks=pytest.mark.exhaustive),
        ("proc", "process"),
    ],
)
def test_figures_can_be_added_up_by_pod(source: str, by: str) -> None:
    with a_pod() as group:
        joins = f"echo $$ > {group}/cgroup.procs; exec sleep 600"
        with program("sh", "-c", joins) as inside, program() as outside:
            wait_for(lambda: [{}] if (group / "cgroup.procs").read_text().split() == [str(inside)] else [])
            with serving("--source", source, "-p", f"{inside},{outside}", "--by", by) as server:
                deadline = time.monotonic() + 200
                while True:
                    found = server.samples()
                    pods = {labels.get("k8s_pod_uid"): labels for labels, _ in found["headway_threads"]}
                    if len(pods) == 2:
                        break
                    assert time.monotonic() < deadline
                    time.sleep(0.05)
    assert pods.keys() == {POD, None}
    assert pods[POD]["container_id"] == CONTAINER
    assert ("pid" in pods[POD]) == (by == "process")
    threads = {labels.get("k8s_pod_uid"): value for labels, value in found["headway_threads"]}
    assert threads == {POD: 1, None: 1}
    times_of = {labels.get("k8s_pod_uid") for labels, _ in found["headway_thread_state_seconds_total"]}
    assert times_of == {POD, None}
    assert found["headway_processes_unplaced_total"] == [({}, 0)]


IN_A_HURRY = "import headway.serving.feed; headway.serving.feed.PATIENCE = 0.2"
"""It waits no longer for a reading before it says that there is none."""


def test_anybody_learns_whether_it_is_healthy(tmp_path: Path) -> None:
    words = ["--source", "proc", "-I", "100", "--token-file", str(token(tmp_path))]
    with program() as pid, serving(*words, "-p", str(pid), first=IN_A_HURRY) as server:

        def until(status: int) -> bytes:
            deadline = time.monotonic() + 200
            while (answer := server.get("/-/healthy", Host="10.0.0.7"))[0].status != status:
                assert time.monotonic() < deadline
                time.sleep(0.02)
            return answer[1]

        assert server.get()[0].status == 401
        assert until(200) == b"healthy\n"
        os.kill(server.process.pid, signal.SIGSTOP)  # who measures hangs
        try:
            until(503)
        finally:
            os.kill(server.process.pid, signal.SIGCONT)
        until(200)


def test_a_service_manager_is_told_that_it_serves_that_it_lives_and_that_it_ends(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(200)
        (tmp_path / "notify").chmod(0o777)
        tmp_path.chmod(0o755)
        for above in tmp_path.parents[:3]:  # pytest keeps others out, and headway becomes another user
            above.chmod(above.stat().st_mode | 0o011)
        env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "500000"}
        with program() as pid, serving("--source", "proc", "-p", str(pid), env=env):
            said = [manager.recv(4096).decode() for _ in range(3)]
        assert said[0].startswith("READY=1\nSTATUS=serving http://127.0.0.1:")
        assert said[1:] == ["WATCHDOG=1"] * 2
        while said[-1] == "WATCHDOG=1":
            said.append(manager.recv(4096).decode())
        assert said[-1] == "STOPPING=1"


def test_a_command_has_the_service_manager_to_itself(tmp_path: Path) -> None:
    env = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "500000"}
    words = ["--source", "proc", "-q", "--", "printenv", "NOTIFY_SOCKET", "WATCHDOG_USEC"]
    done = subprocess.run([*SERVE, *words], capture_output=True, text=True, timeout=200, env={**os.environ, **env})
    assert done.stdout.split() == list(env.values())


def test_the_page_and_what_is_refused() -> None:
    with program() as pid, serving("--source", "proc", "-p", str(pid)) as server:
        answer, page = server.get("/")
        assert answer.status == 200
        assert b"<title>headway</title>" in page
        for path in re.findall(r'(?:src|href)="([\w.]+)"', page.decode()):
            assert server.get(f"/{path}")[0].status == 200
        assert server.get("/nothing")[0].status == 404
        assert server.get(Host="evil.example")[0].status == 421


BROWSER = next((name for name in ("chromium", "chromium-browser", "google-chrome") if shutil.which(name)), None)


@pytest.mark.exhaustive
@pytest.mark.skipif(BROWSER is None, reason="needs Chromium")
def test_a_browser_shows_the_page_whatever_threads_call_themselves(tmp_path: Path) -> None:
    assert BROWSER is not None
    with program(*script("hostile_thread_names")) as pid, serving("-p", str(pid), "--by", "thread") as server:
        words = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}", "--dump-dom"]
        words += ["--virtual-time-budget=8000", "--enable-logging=stderr", f"http://127.0.0.1:{server.port}/"]
        shown = subprocess.run([BROWSER, *words], capture_output=True, text=True, timeout=120, check=True)
    rows = shown.stdout.partition("<tbody")[2].partition("</tbody>")[0]
    assert rows.count("<tr>") == 7
    for name in ("&lt;b&gt;bold&lt;/b&gt;", "&lt;/script&gt;&lt;i&gt;", "a&amp;lt;b\"'", "\\u202eevil", "\\x1b[31mred"):
        assert name in rows
    assert "wait.sleep" in rows
    assert 'id="notes"><li>' in shown.stdout
    assert not re.search(r"CONSOLE.*(Refused|Error|Uncaught)", shown.stderr)


def test_with_a_token_only_who_has_it_is_answered(tmp_path: Path) -> None:
    words = ["--source", "proc", "--token-file", str(token(tmp_path))]
    with program() as pid, serving(*words, "-p", str(pid)) as server:
        assert server.get()[0].status == 401
        assert server.get(Authorization="Bearer wrong")[0].status == 401
        assert server.get(Authorization="Bearer correct-horse-battery-staple", Host="x.example")[0].status == 200
        browser = base64.b64encode(b"me:correct-horse-battery-staple").decode()
        assert server.get("/", Authorization=f"Basic {browser}")[0].status == 200


# ---- who it is ----


def status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def lives(pid: int) -> bool:
    """Whether a process is there, and no zombie."""
    try:
        return status(pid).get("State", "Z")[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def open_files(pid: int) -> list[str]:
    """What a process has open, without what it closes while we look (as a connection that has just been served)."""
    names = []
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            names.append(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return names


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: others have nothing to give up")
@each_source
def test_privileges_are_given_up(source: str) -> None:
    with program() as pid, serving("--source", source, "-p", str(pid)) as server:
        server.samples()
        measuring, listening = status(server.process.pid), status(server.listener())
        for one in (measuring, listening):
            assert set(one["Uid"].split()) == {one["Uid"].split()[0]} != {"0"}
            assert set(one["Gid"].split()) != {"0"}
            assert one["Groups"] == ""
            assert one["NoNewPrivs"] == "1"
            assert int(one["CapInh"], 16) == int(one["CapAmb"], 16) == int(one["CapBnd"], 16) == 0
        assert int(listening["CapPrm"], 16) == int(listening["CapEff"], 16) == 0
        kept = {number for number in range(64) if int(measuring["CapPrm"], 16) >> number & 1}
        assert kept <= ({38, 39} if source == "bpf" else {2, 19})
        assert measuring["CapEff"] == measuring["CapPrm"]
        assert not [name for name in open_files(server.listener()) if "bpf" in name]
        uid = int(listening["Uid"].split()[0])
        assert uid != pwd.getpwnam("nobody").pw_uid
        if "runs as headway without capabilities" not in server.said[-1]:  # there may be others of that account
            assert f"runs as user {uid} without capabilities" in server.said[-1]
            assert users().count(uid) == 2, "nothing else is this user"


def users() -> list[int]:
    """The user of each process."""
    found = []
    for pid in map(int, filter(str.isdigit, os.listdir("/proc"))):
        with suppress(OSError):
            found.append(int(status(pid)["Uid"].split()[0]))
    return found


def test_in_a_user_namespace_without_another_user_it_stays_the_one_it_is() -> None:
    namespace = ["unshare", "--user", "--map-root-user"]
    if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs unshare(1) and user namespaces")
    with program() as pid:
        words = [*namespace, *SERVE, "--source", "proc", "-p", str(pid), "-d", "0.1"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (0, 1), done.stderr
        assert "as this user without capabilities" in done.stderr
        refused = subprocess.run([*words, "--user", "daemon"], capture_output=True, text=True, timeout=200, check=False)
    assert refused.returncode == 125
    assert refused.stderr == (
        "headway: this user namespace does not have the id of 'daemon': leave --user out, or map that id\n"
    )


@pytest.mark.root
def test_calls_are_seen_of_a_process_for_which_a_condition_holds_and_that_is_said() -> None:
    """The programs that see them are attached by a process that is root no more."""
    program = "import os, sys\nfor line in sys.stdin:\n    for i in range(20000): os.getppid()"
    calls = subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE)
    assert calls.stdin is not None
    quality: dict[str, str] = {}
    condition = "process: running > 1 %"
    try:
        with serving("-p", str(calls.pid), "-I", "100", "--counts", "--when", condition) as server:
            assert condition in json.loads(server.get("/live.json")[1])["reasons"]["depth"]
            deadline = time.monotonic() + 200
            while quality.get("kpi") != "partial":
                assert time.monotonic() < deadline, "it never goes deep"
                calls.stdin.write(b"\n" * 5)
                calls.stdin.flush()
                time.sleep(0.1)
                found = server.samples()
                quality = {has["index"]: has["quality"] for has, value in found["headway_index_quality"] if value}
            said = json.loads(server.get("/live.json")[1])["reasons"]["depth"]
    finally:
        calls.kill()
        calls.communicate()
    assert f"process {calls.pid}" in said


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_a_root_user_that_cannot_become_another_is_told_what_it_lacks() -> None:
    words = ["setpriv", "--bounding-set=-all,+bpf,+perfmon,+setgid", "--inh-caps=-all"]
    done = subprocess.run([*words, *SERVE, "-a"], capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 125
    who = (re.search("becoming (headway|user [0-9]+) ", done.stderr) or ["", ""])[1]
    assert done.stderr == (
        f"headway: becoming {who} needs CAP_SETUID and CAP_SETGID, which this root user does not have: give it both, "
        "or start headway as another user\n"
    )


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_another_user_may_be_named() -> None:
    with program() as pid, serving("--source", "proc", "-p", str(pid), "--user", "daemon") as server:
        assert status(server.listener())["Uid"].split()[0] == "1"


@each_source
def test_nothing_is_loaded_any_more_once_it_serves(source: str, tmp_path: Path) -> None:
    """What is loaded later may lie where the user that it has become cannot read."""
    with program() as pid:
        words = ["--source", source, "-p", str(pid), "-I", "20", "--listen", "127.0.0.1:0"]
        command = [sys.executable, "-X", "importtime", *HEADWAY[1:], "serve", *words]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, process_group=0)
        assert process.stderr is not None
        line = ""
        while "serving http" not in line:
            line = process.stderr.readline()
            assert line
        server = Running(process, [line])
        for path in ("/metrics", "/", "/live.json", "/nothing"):
            server.get(path, Accept_Encoding="gzip", Accept=OPEN)
            server.get(path, Host="[::1]")
        with socket.create_connection(("127.0.0.1", server.port)) as one:
            one.sendall(b"nonsense\r\n\r\n")
            one.recv(1000)
        time.sleep(1.2)  # for what is looked at once a second
        process.send_signal(signal.SIGINT)
        rest = the_rest(process)
    assert process.returncode == 0
    assert [line for line in rest.splitlines() if "import time" in line] == []


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="needs root and setpriv")
def test_an_ordinary_user_serves_its_own() -> None:
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]
    with program(*words, "sleep", "600") as pid:
        process = subprocess.Popen([*words, *SERVE, "-p", str(pid)], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        said = [process.stderr.readline()]
        if "Permission" in said[0] or "Error" in said[0] or "Traceback" in said[0]:
            process.communicate()
            pytest.skip("this Python cannot be read by other users")
        while said[-1] and "serving http" not in said[-1]:
            said.append(process.stderr.readline())
        assert "measuring with /proc, sampled" in said[0]
        found = Running(process, said).samples()
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=200)
    assert process.returncode == 0
    assert found["headway_threads"][0][0]["pid"] == str(pid)


# ---- how it ends ----


@rather_proc
def test_with_a_command_it_ends_as_the_command_does(source: str) -> None:
    words = [*SERVE, "-q", "--source", source, "--", sys.executable, "-c", "print('hello'); raise SystemExit(7)"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=200, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, "hello\n", "")


@rather_proc
def test_signals_reach_the_command_though_it_is_another_users(source: str) -> None:
    with serving("--source", source, "--", "sleep", "600") as server:
        server.samples()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(timeout=200) == -signal.SIGTERM


def test_serve_ends_with_what_it_measures_and_after_its_duration() -> None:
    with program() as pid, serving("--source", "proc", "-p", str(pid)) as server:
        os.kill(pid, signal.SIGKILL)
        assert server.process.wait(timeout=200) == 0
    with program() as pid, serving("--source", "proc", "-p", str(pid), "-d", "0.5") as server:
        assert server.process.wait(timeout=200) == 0


def test_if_the_listener_is_killed_it_says_so_and_the_command_goes_on(tmp_path: Path) -> None:
    until_told = f"until [ -e {tmp_path}/go ]; do sleep 0.1; done"
    with serving("--source", "proc", "--", "sh", "-c", until_told) as server:
        listener = server.listener()
        os.kill(listener, signal.SIGKILL)
        deadline = time.monotonic() + 200
        while Path(f"/proc/{listener}").exists():  # until its end was seen
            assert time.monotonic() < deadline
            time.sleep(0.02)
        (tmp_path / "go").touch()
        assert server.process.wait(timeout=200) == 125
    assert "the process that listens has ended (signal 9)" in server.said[-1]


def test_if_who_measures_is_killed_the_listener_ends() -> None:
    with program() as pid, serving("--source", "proc", "-p", str(pid)) as server:
        listener = server.listener()
        server.process.kill()
        server.process.wait()
        deadline = time.monotonic() + 200
        while lives(listener):
            assert time.monotonic() < deadline
            time.sleep(0.02)


@each_source
def test_after_many_short_threads_only_some_series_are_left_and_no_time_is_lost(
    source: str, compile_c: Compile
) -> None:
    storm = compile_c("thread_storm")
    options = ["--source", source, "--by", "thread", "--max-series", "200", "-I", "20"]
    with serving(*options, "--", str(storm)) as server:
        seen, was = 0.0, 0.0
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            found = server.samples()
            times = [
                v
                for name in ("headway_thread", "headway_departed_thread")
                for _, v in found.get(f"{name}_state_seconds_total", [])
            ]
            assert found["headway_series"][0][1] <= 200
            assert len(found["headway_thread_state_seconds_total"]) <= 200 + 60
            assert sum(times) >= was - 1e-6
            was = sum(times)
            seen = found["headway_threads_seen_total"][0][1]
            if seen > 500 or source == "proc":
                break
            time.sleep(0.05)
        os.kill(int(Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read_text().split()[1]), 9)
        server.process.wait(timeout=200)
    assert seen > (500 if source == "bpf" else 0)


# ---- with the programs that it is made for ----


@pytest.mark.exhaustive
@pytest.mark.skipif(not shutil.which("prometheus"), reason="needs Prometheus (Debian: apt install prometheus)")
@pytest.mark.parametrize("guarded", [False, True])
def test_prometheus_scrapes_the_metrics(tmp_path: Path, guarded: bool) -> None:
    password = token(tmp_path)
    options = ["--token-file", str(password)] if guarded else []
    with program() as pid, serving("-p", str(pid), "-I", "100", *options) as server, socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        authorization = f"authorization: {{credentials_file: '{password}'}}" if guarded else ""
        config = tmp_path / "prometheus.yml"
        config.write_text(
            f"global: {{scrape_interval: 1s}}\nscrape_configs:\n- job_name: headway\n  {authorization}\n"
            f"  static_configs: [{{targets: ['127.0.0.1:{server.port}']}}]\n"
        )
        prometheus = subprocess.Popen(
            [
                "prometheus",
                f"--config.file={config}",
                f"--storage.tsdb.path={tmp_path / 'data'}",
                f"--web.listen-address=127.0.0.1:{port}",
            ],
            stderr=subprocess.DEVNULL,
        )
        try:
            query = f'irate(headway_thread_state_seconds_total{{pid="{pid}",kind="wait"}}[1m]) > 0'
            (row,) = wait_for(lambda: ask_prometheus(port, query))
            assert row["metric"]["state"] == "wait.sleep"
            wait_for(lambda: ask_prometheus(port, 'up{job="headway"} == 1'))
            types = json.loads(get(port, "/api/v1/metadata"))["data"]
            assert types["headway_thread_state_seconds"][0]["type"] == "counter"
            wait_for(lambda: healthy(port))
        finally:
            prometheus.terminate()
            prometheus.wait(timeout=200)


def healthy(port: int) -> list[dict[str, Any]]:
    """What Prometheus has scraped without an error."""
    targets = json.loads(get(port, "/api/v1/targets"))["data"]["activeTargets"]
    return [target for target in targets if (target["health"], target["lastError"]) == ("up", "")]


def get(port: int, path: str) -> bytes:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=200)
    try:
        connection.request("GET", path)
        return connection.getresponse().read()
    finally:
        connection.close()


def ask_prometheus(port: int, query: str) -> list[dict[str, Any]]:
    with suppress(OSError, ValueError, KeyError):
        rows: list[dict[str, Any]] = json.loads(get(port, f"/api/v1/query?query={urllib.parse.quote(query)}"))["data"][
            "result"
        ]
        return rows
    return []


def wait_for(found: Callable[[], list[dict[str, Any]]]) -> list[dict[str, Any]]:
    deadline = time.monotonic() + 200
    while not (rows := found()):
        assert time.monotonic() < deadline, "it never came"
        time.sleep(0.1)
    return rows


def test_metrics_are_pushed_to_a_collector() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otlp")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    received: list[Any] = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            received.append((self.path, ExportMetricsServiceRequest.FromString(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{collector.server_address[1]}"
    try:
        with (
            program() as pid,
            serving("-p", str(pid), "--otlp", address, env={"OTEL_METRIC_EXPORT_INTERVAL": "200"}) as server,
        ):
            deadline = time.monotonic() + 200
            while len(received) < 3:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            assert server.get()[0].status == 200
    finally:
        collector.shutdown()
        collector.server_close()
    path, first = received[0]
    assert path == "/v1/metrics"
    (resource,) = first.resource_metrics
    assert {one.key: one.value.string_value for one in resource.resource.attributes}["service.name"] == "headway"
    metrics = {metric.name: metric for metric in resource.scope_metrics[0].metrics}
    times = metrics["headway.thread.state"]
    assert times.unit == "s"
    assert times.sum.is_monotonic
    assert times.sum.aggregation_temporality == 2  # cumulative
    point = times.sum.data_points[0]
    assert {one.key: one.value.string_value for one in point.attributes}["pid"] == str(pid)
    assert 0 < point.start_time_unix_nano <= point.time_unix_nano
    assert (
        metrics["headway.threads"].gauge.data_points[0].as_double == 1
        or metrics["headway.threads"].gauge.data_points[0].as_int == 1
    )


def test_a_collector_that_is_not_there_is_said_once() -> None:
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http", reason="needs the extra otlp")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"http://127.0.0.1:{taken.getsockname()[1]}"
    env = {"OTEL_METRIC_EXPORT_INTERVAL": "100", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    with program() as pid, serving("--source", "proc", "-p", str(pid), "--otlp", address, env=env) as server:
        assert server.process.stderr is not None
        server.said.append(server.process.stderr.readline())
        time.sleep(0.5)  # for others
    assert sum("does not take metrics" in line for line in server.said) == 1
