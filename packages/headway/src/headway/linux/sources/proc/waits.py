"""What a sleeping thread waits for, from the system call or the function of the kernel that it sleeps in."""

from __future__ import annotations

from headway.linux.syscalls.table import BY_FILE, WAITS, name_of

__all__ = ["CHANNELS", "reason_of_call", "reason_of_wchan"]

CHANNELS: tuple[tuple[str, str], ...] = (
    ("futex_", "wait.futex"),
    ("ep_poll", "wait.epoll"),
    ("do_epoll_wait", "wait.epoll"),
    ("poll_schedule_timeout", "wait.poll"),
    ("do_poll", "wait.poll"),
    ("do_select", "wait.poll"),
    ("do_sys_poll", "wait.poll"),
    ("hrtimer_nanosleep", "wait.sleep"),
    ("do_nanosleep", "wait.sleep"),
    ("common_nsleep", "wait.sleep"),
    ("do_wait", "wait.child"),
    ("kernel_wait4", "wait.child"),
    ("pipe_", "wait.pipe"),
    ("anon_pipe_", "wait.pipe"),
    ("fifo_open", "wait.pipe"),
    ("wait_for_partner", "wait.pipe"),
    ("inet_csk_accept", "wait.net"),
    ("sk_wait_data", "wait.net"),
    ("sk_stream_wait", "wait.net"),
    ("tcp_", "wait.net"),
    ("udp_", "wait.net"),
    ("unix_", "wait.net"),
    ("sock_", "wait.net"),
    ("__skb_wait", "wait.net"),
    ("skb_wait", "wait.net"),
    ("netlink_", "wait.net"),
    ("io_schedule", "wait.disk"),
    ("folio_wait", "wait.disk"),
    ("wait_on_page", "wait.disk"),
    ("wait_on_buffer", "wait.disk"),
    ("bit_wait_io", "wait.disk"),
    ("blk_", "wait.disk"),
    ("rq_qos_wait", "wait.disk"),
    ("jbd2_", "wait.disk"),
    ("xfs_", "wait.disk"),
    ("btrfs_", "wait.disk"),
    ("do_signal_stop", "stopped"),
    ("ptrace_stop", "stopped"),
    ("handle_userfault", "wait.fault"),
)
"""Kernel functions that threads sleep in (as /proc/PID/wchan names them), by how they begin."""


def reason_of_call(number: int) -> str | None:
    """Return the state of a thread that sleeps in this system call; None: that depends on the file of the call."""
    name = name_of(number)
    reason = WAITS.get(name, name)
    return None if reason == BY_FILE else f"wait.{reason}"


def reason_of_wchan(channel: bytes) -> str | None:
    """Return the state of a thread that sleeps in this function of the kernel; None: it does not say."""
    name = channel.decode("ascii", "replace")
    return next((reason for prefix, reason in CHANNELS if name.startswith(prefix)), None)
