/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What calls.bpf.c counts of system calls, and their reader takes: its keys and values. list_layout.py makes of this header
 * the module _call_layout.
 */
#ifndef HEADWAY_CALL_LAYOUT_H
#define HEADWAY_CALL_LAYOUT_H

#include "shared/layout.h"

enum call_size {
	PATH_BYTES = 256, /* of the path of a file, from its last name to its first, each with a NUL */
	NAME_BYTES = 64, /* of one name in it; longer ones are cut */
	UNIX_BYTES = 108, /* UNIX_PATH_MAX (include/uapi/linux/un.h) */
	N_NAMES = 32, /* names in it */
	N_MESSAGES = 64, /* messages of sendmmsg and recvmmsg whose lengths are added up */
	OTHER_CALLS = 511, /* all calls without a number of their own */
	PATH_ROOM = 320, /* PATH_BYTES + NAME_BYTES */
};

enum file_argument { /* where a call has its file: the number of the argument, from 1 */
	NO_FILE,
	RETURNED_FILE = 7, /* the call returns it */
};

enum call_result { /* what a call returns, if it succeeds */
	RETURNS_BYTES = 1, /* how many bytes it moved */
	RETURNS_MESSAGES = 2, /* how many messages; each has its length in an array at the second argument */
	RETURNS_TWICE = 4, /* in a new thread, too: 0 */
};

enum path_flag {
	PATH_CUT = 1, /* its first names are left out */
	PATH_APART = 2, /* it does not begin at the root of the process */
};

/* A file: what no other has at the same time. */
struct used_file_key {
	__u64 inode;
	__u32 device; /* of the file system, as the kernel has it; 0 with inode 0: no file */
	__u32 generation; /* of the inode: another one where its number was free meanwhile */
	__u32 kind; /* one of enum file_kind */
	__u32 spare;
};

/* How one end of a socket is known. */
struct socket_end {
	char address[16];
	__u16 port; /* in the order of this machine; in the family AF_UNIX the bytes of its address, which is in the path */
	__u16 spare[3];
};

struct file_info {
	__u32 length; /* bytes of the path in use */
	__u32 flags;
	__u32 family; /* of a socket: AF_UNIX, AF_INET, AF_INET6; 0: of another family, or none */
	__u32 peer_pid; /* of a socket in the family AF_UNIX: who made its other end; 0: not known */
	struct socket_end local;
	struct socket_end remote;
	char path[PATH_ROOM]; /* in the family AF_UNIX the addresses of both ends, at 0 and at UNIX_BYTES */
};

struct call_key {
	struct used_file_key file;
	__u32 pid; /* as threads have it: of the reader's pid namespace */
	__u16 call;
	__u16 second; /* 1: the call's second file, of which only bytes are counted */
};

struct call_use {
	__u64 count; /* calls that have returned */
	__u64 errors; /* calls that returned an error */
	__u64 on, waited, ready; /* ns on a processor, without headway's own time, and off it */
	__u64 bytes;
};

struct error_key {
	__u32 pid;
	__u16 call;
	__u16 error; /* errno */
};

/* What the reader and the programs tell each other beside the maps. */
struct call_account {
	__u64 without_place; /* calls for which there was no room by process and file */
	__u64 tax; /* what it takes to begin and end a program, ns << COST_BITS: the reader measures it */
	__u64 own_time, own_runs; /* what the programs took by their own clock, ns, and how often; while `timing` is 1 */
	__u64 timing;
};

/* One thread, by the number of its record: the call in which it is. */
struct open_call {
	__u64 birth; /* of the thread; another one: of a thread that is gone */
	__u64 began; /* 0: it is in none */
	__u64 left; /* when it left its processor in it; 0: it is on one */
	__u64 off; /* ns off it so far */
	__u64 ready; /* the thread's time ready when it began */
	__u64 overhead; /* and headway's time taken out of the thread's */
	struct used_file_key file;
	struct used_file_key second;
	__u32 call;
	__u32 pid;
};

_Static_assert((int)OTHER_CALLS == (int)N_CALLS - 1, "it is the last number of a call");
_Static_assert((int)PATH_ROOM == (int)PATH_BYTES + (int)NAME_BYTES, "a name that begins within the path has room");
_Static_assert(sizeof(struct open_call) % 8 == 0, "the kernel sets the entries of an array in multiples of 8 bytes");

#endif
