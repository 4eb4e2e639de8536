/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting: one thread on each processor, all of which read their processor at the same moment.
 *
 * Wait Sync Event: the conductor announces an attempt, and wakes the readers. ACK: a reader that is there counts itself
 * in, and does nothing else from then on but look whether the others have come. For `patience` it keeps its processor from
 * everything else; where others take longer, because theirs is asleep, it waits on as an ordinary thread does, which
 * has to give way. When the last one has come, the phase is GO: all read, none of them can be doing anything else
 * meanwhile. Done Sync Event: when all have read, all leave. Nobody waits for ever: whoever's `wait` ends calls the
 * attempt off, for all or for none, because arriving, going and calling off are one atomic word.
 *
 * Times are ns of CLOCK_MONOTONIC, which no processor's own speed has a part in.
 */
#ifndef HEADWAY_MEETING_H
#define HEADWAY_MEETING_H

#include <stdint.h>

enum { MEETING_SOURCES = 4, MEETING_WORDS = 12, MEETING_CHAINS = 2, MEETING_WATCHED = 2 };

/* A file that is read in the meeting: a counter of the reader's processor. */
struct meeting_source {
	int fd;
	int64_t offset; /* to read from by pread(2); negative: read(2) */
	uint32_t words; /* 64 bits each */
};

/* What a reader says of an attempt. */
struct meeting_reading {
	uint64_t attempt; /* the attempt that it is of; 0: none yet */
	uint32_t met; /* whether all had come; the rest of the times is 0 where they had not */
	uint32_t missing; /* sources that could not be read, a bit each */
	int cpu_before, cpu_after; /* where the reader ran */
	int repin_error; /* errno of going back to its processor, where it was moved away from it */
	uint32_t loose; /* it was no longer bound to its processor: somebody bound it elsewhere, or that was turned off */
	uint64_t woken; /* and has seen to its being where it should be */
	uint64_t arrived; /* it has said so */
	uint64_t saw_go;
	uint64_t gave_way; /* ns before that in which it would have left its processor to anybody else */
	uint64_t before, after; /* the sources were read between these */
	uint64_t saw_done; /* all have read, or patience has ended */
	uint64_t gap; /* the longest time between two looks at the clock where nothing else was to be done */
	uint64_t chain_ns[MEETING_CHAINS]; /* time of a chain of dependent instructions, of `chain_length` cycles; 0: not run */
	uint64_t away; /* ns in the meeting in which its thread did not run, by the kernel's account: stolen, in an interrupt */
	uint64_t preempted; /* how often the reader was made to leave the processor between waking and leaving */
	uint64_t waited; /* how often it left by itself */
	uint64_t words[MEETING_WORDS];
};

struct meeting;

/* Readers for these processors, not started. NULL: no memory. */
struct meeting *meeting_new(const int *cpus, uint32_t n);
void meeting_add_source(struct meeting *m, uint32_t reader, struct meeting_source source);
/*
 * Starts the threads. The one that calls it, the conductor, is dispatched soon from then on, as they are. What became of
 * each: 0, or the errno of binding it to its processor. Returns 0 or an errno.
 */
int meeting_start(struct meeting *m, int want_fifo);
int meeting_error(const struct meeting *m, uint32_t reader);
/* The thread's id; whether it has the processor before all ordinary threads. */
int meeting_tid(const struct meeting *m, uint32_t reader);
int meeting_fifo(const struct meeting *m, uint32_t reader);
/* Between attempts: have the readers go before all ordinary threads, or not. Returns whether all do. */
int meeting_precede(struct meeting *m, int precede);
/* Readers that are not expected, until they are again. */
void meeting_expect(struct meeting *m, uint32_t reader, int expected);
/* Where to announce a snapshot of the ledger, or NULL; how much later than the meeting it is. */
void meeting_set_snapshot(struct meeting *m, uint64_t *at, uint32_t *number, uint64_t ahead);
/*
 * ns for which a reader keeps its processor while others have not come, and half of it while they have not read; ns for
 * which it waits at all for them to come; cycles of the chain (a multiple of 64), 0: none.
 */
void meeting_set_limits(struct meeting *m, uint64_t patience, uint64_t wait, uint64_t chain_length);
/* One attempt, announced at this moment or as soon as possible. Returns whether all met, at last `deadline` ns after it. */
int meeting_attempt(struct meeting *m, uint64_t moment, uint64_t deadline);
/* The conductor's sleep between meetings. Returns whether a file can be read, or a signal came, before the moment. */
int meeting_sleep(const int *fds, uint32_t n, uint64_t until);
/* The attempt's number, and the moment of its snapshot. */
uint64_t meeting_number(const struct meeting *m);
uint64_t meeting_snapshot(const struct meeting *m);
/* What the reader says of the last attempt; attempt 0 where it says nothing of it, because it has not come. */
void meeting_read(const struct meeting *m, uint32_t reader, struct meeting_reading *to);
/* Ends the threads. */
void meeting_free(struct meeting *m);

uint64_t meeting_clock(void);

#endif
