"""Install wheels in a system that has nothing but Python, and use them: ``python3 inside.py FOLDER WHEEL...``.

Runs inside the bare systems of ``make wheels-check``, and in any other by hand: it needs nothing but Python and its
venv. FOLDER is for the virtual environment; ordinary users must be able to read it. The wheel of headway comes alone,
or with those of the other distributions, which are tried too. Prints a JSON document: how long it took until headway
was installed, and then until ``headway demo`` gave its first line; what each run said; and ``faults``: what was not as
it should be. The exit status is 1 if there are faults.
"""

import json
import os
import platform
import resource
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

USER = 65534
"""The uid of an ordinary user, nobody."""

NOT_NEEDED = ("cc", "gcc", "clang", "ld", "bpftool", "git")
"""Programs that a bare system lacks. The check proves less on a system that has one of them."""


def installed(wheels: list[str], folder: Path) -> tuple[float, float]:
    """Install wheels into a new virtual environment. Return the time that took and its processor time, in s."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-m", "venv", folder], check=True, stdout=sys.stderr)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *wheels], check=True, stdout=sys.stderr)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.monotonic() - began, used.ru_utime + used.ru_stime


def first_line(command: list[str]) -> tuple[float, str, int]:
    """Return the seconds until a command printed its first line, its whole output, and its exit status."""
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        waited = time.monotonic() - began
        rest = process.stdout.read()
    return waited, line + rest, process.returncode


def measured(headway: str, folder: Path, user: int | None) -> dict[str, Any]:
    """Return a summary of the document of ``headway stat`` for a program, run by root or by an ordinary user."""
    report = folder / f"report-{user}.json"
    report.touch()
    if user is not None:
        os.chown(report, user, user)
    program = [sys.executable, "-c", "print(sum(range(10**6)))"]
    done = subprocess.run(
        [headway, "stat", "--json", "-o", str(report), "--", *program],
        capture_output=True,
        text=True,
        check=False,
        user=user,
        group=user,
        extra_groups=[] if user is not None else None,
        env={**os.environ, "HOME": str(folder)} if user is None else {"PATH": os.environ["PATH"], "HOME": "/"},
    )
    found: dict[str, Any] = {"status": done.returncode, "output": done.stdout, "said": done.stderr[-2000:]}
    try:
        document = json.loads(report.read_text())
    except ValueError:
        return found
    times = [
        (thread["end"] or document["window"]["end"])
        - thread["start"]
        - sum(state["time"] for state in thread["states"])
        for thread in document["threads"]
    ]
    return {**found, "source": document["source"], "threads": len(times), "unaccounted_ns": sum(map(abs, times))}


def faults_of(run: dict[str, Any], source: str) -> list[str]:
    """Return what is wrong with a run of ``headway stat``, in words."""
    if run["status"] or run["output"] != "499999500000\n":
        return [f"the measured program ended with status {run['status']} and printed {run['output']!r}: {run['said']}"]
    found = []
    if run.get("source") != source:
        found.append(f"measured by {run.get('source')}, expected {source}: {run['said']}")
    if not run.get("threads"):
        found.append("no thread was measured")
    if run.get("unaccounted_ns"):
        found.append(f"{run['unaccounted_ns']} ns of the threads' lives are in no state")
    return found


def faults_of_machine(headway: str, folder: Path) -> list[str]:
    """Return what is wrong with a traced run of the reference machine, in words."""
    trace = folder / "run.hwt"
    found = []
    for words in (["machine", "run", "six-threads", "--trace", str(trace)], ["trace", "stats", str(trace)]):
        done = subprocess.run([headway, *words], capture_output=True, text=True, check=False)
        if done.returncode:
            return [f"headway {words[0]} {words[1]} ended with status {done.returncode}: {done.stderr[-2000:]}"]
        found.append(done.stdout)
    return [] if "packet.P-header" in found[1] else [f"headway trace stats printed {found[1][-2000:]!r}"]


def main() -> int:
    """Run the whole check. Return the exit status."""
    folder, wheels = Path(sys.argv[1]), sys.argv[2:]
    superfluous = [name for name in NOT_NEEDED if shutil.which(name)]
    libbpf = [str(path) for path in Path("/usr").glob("lib*/**/libbpf.so*")]
    install, install_used = installed(wheels, folder)
    headway = str(folder / "bin" / "headway")
    waited, text, status = first_line([headway, "demo"])
    doctor = subprocess.run([headway, "doctor", "--json"], capture_output=True, text=True, check=False)
    runs = {"user": measured(headway, folder, USER)}
    faults = [f"as an ordinary user: {fault}" for fault in faults_of(runs["user"], "proc")]
    capabilities = json.loads(doctor.stdout)["capabilities"] if doctor.returncode == 0 else []
    if not capabilities:
        faults.append(f"headway doctor ended with status {doctor.returncode}: {doctor.stderr}")
    found = {one["name"]: one for one in capabilities}
    if "libbpf" in found and "inside the package" not in found["libbpf"]["why"]:
        faults.append(f"headway doctor says of libbpf: {found['libbpf']['why']}")
    if os.geteuid() == 0:
        runs["root"] = measured(headway, folder, None)
        faults += [f"as root: {fault}" for fault in faults_of(runs["root"], "bpf")]
    if status or "threads that know what they do" not in text:
        faults.append(f"headway demo ended with status {status}: {text[-2000:]}")
    if any(Path(wheel).name.startswith("headway_machine-") for wheel in wheels):
        faults += faults_of_machine(headway, folder)
    document = {
        "wheels": [Path(wheel).name for wheel in wheels],
        "system": platform.freedesktop_os_release().get("PRETTY_NAME"),
        "kernel": platform.release(),
        "machine": platform.machine(),
        "python": platform.python_version(),
        "glibc": platform.libc_ver()[1],
        "not_bare": superfluous + libbpf,
        "install_s": round(install, 1),
        "install_processor_s": round(install_used, 1),
        "demo_first_line_s": round(waited, 1),
        "demo": text.partition("\n")[0],
        "verdicts": json.loads(doctor.stdout)["verdicts"] if capabilities else None,
        "runs": {name: {k: v for k, v in run.items() if k != "said"} for name, run in runs.items()},
        "faults": faults,
    }
    print(json.dumps(document, indent=2))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
