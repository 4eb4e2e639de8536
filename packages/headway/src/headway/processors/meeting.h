/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A meeting: one thread on each processor; all of them read their processor at the same moment.
 *
 * Wait Sync Event: the conductor announces an attempt and wakes the readers. ACK: a reader that has come counts itself in,
 * and from then on only checks whether the others have come. For `patience` it keeps its processor from everything else.
 * If others take longer, because their processor is asleep, it goes on waiting as an ordinary thread, which has to give
 * way. When the last reader has come, the phase is GO: all read, and none of them can be doing anything else meanwhile.
 * Done Sync Event: when all have read, all leave. No reader waits for ever: when the `wait` of any reader ends, it calls
 * the attempt off, for all readers or for none, because arriving, going and calling off change one atomic word.
 *
 * Times are ns of CLOCK_MONOTONIC, which does not depend on the speed of any processor.
 */
#ifndef HEADWAY_MEETING_H
#define HEADWAY_MEETING_H

#include <stdint.h>

enum { MEETING_SOURCES = 4, MEETING_WORDS = 12, MEETING_CHAINS = 2, MEETING_WATCHED = 2 };

/* A file that is read in the meeting, for example a counter of the reader's processor. */
struct meeting_source {
	int fd;
	int64_t offset; /* offset for pread(2); negative: use read(2) */
	uint32_t words; /* number of 64-bit words */
};

/* The stamps and counters of a reader for an attempt. */
struct meeting_reading {
	uint64_t attempt; /* number of the attempt; 0: none yet */
	uint32_t met; /* whether all had come; if not, the times after `arrived` are 0 */
	uint32_t missing; /* sources that could not be read, one bit each */
	int cpu_before, cpu_after; /* where the reader ran */
	int repin_error; /* errno of its return to its processor, if it had been moved away */
	uint32_t
		loose; /* it was no longer bound to its processor: it was bound elsewhere, or the processor was turned off */
	uint64_t woken; /* it has woken and is on its processor */
	uint64_t arrived; /* it has counted itself in */
	uint64_t saw_go;
	uint64_t gave_way; /* ns before that in which it would have left its processor to any other thread */
	uint64_t before, after; /* the sources were read between these */
	uint64_t saw_done; /* all have read, or patience has ended */
	uint64_t gap; /* the longest time between two looks at the clock while there was nothing else to do */
	uint64_t
		chain_ns[MEETING_CHAINS]; /* time of a chain of dependent instructions, of `chain_length` cycles; 0: not run */
	uint64_t
		away; /* ns in the meeting in which its thread did not run, by the kernel's account: stolen, in an interrupt */
	uint64_t preempted; /* how often the reader was forced off the processor between waking and leaving */
	uint64_t waited; /* how often it left by itself */
	uint64_t words[MEETING_WORDS];
};

struct meeting;

/* Make readers for these processors, without starting them. Return NULL if there is no memory. */
struct meeting *meeting_new(const int *cpus, uint32_t n);
void meeting_add_source(struct meeting *m, uint32_t reader, struct meeting_source source);
/*
 * Start the threads. From then on the calling thread, the conductor, is dispatched as soon as they are. meeting_error
 * returns for each reader 0, or the errno of binding it to its processor. Return 0 or an errno.
 */
int meeting_start(struct meeting *m, int want_fifo);
int meeting_error(const struct meeting *m, uint32_t reader);
/* The thread's id, and whether it runs before all ordinary threads. */
int meeting_tid(const struct meeting *m, uint32_t reader);
int meeting_fifo(const struct meeting *m, uint32_t reader);
/* Let the readers run before all ordinary threads, or not; call it between attempts. Return whether all do. */
int meeting_precede(struct meeting *m, int precede);
/* Set whether a reader is expected. */
void meeting_expect(struct meeting *m, uint32_t reader, int expected);
/* Set where to announce a snapshot of the ledger (NULL: nowhere), and how much later than the meeting it is. */
void meeting_set_snapshot(struct meeting *m, uint64_t *at, uint32_t *number, uint64_t ahead);
/*
 * Set for how many ns a reader keeps its processor while others have not come (half of it while they have not read), for
 * how many ns it waits in all for them to come, and the cycles of the chain (a multiple of 64; 0: none).
 */
void meeting_set_limits(struct meeting *m, uint64_t patience, uint64_t wait, uint64_t chain_length);
/* Make one attempt, at this moment or soon after. Return whether all met, at the latest `deadline` ns after it. */
int meeting_attempt(struct meeting *m, uint64_t moment, uint64_t deadline);
/* Sleep between meetings (the conductor). Return whether a file became readable, or a signal came, before the moment. */
int meeting_sleep(const int *fds, uint32_t n, uint64_t until);
/* The number of the attempt, and the moment of its snapshot. */
uint64_t meeting_number(const struct meeting *m);
uint64_t meeting_snapshot(const struct meeting *m);
/* Copy the reading of the last attempt; its `attempt` is 0 if the reader has not come. */
void meeting_read(const struct meeting *m, uint32_t reader, struct meeting_reading *to);
/* End the threads and free the memory. */
void meeting_free(struct meeting *m);

uint64_t meeting_clock(void);

#endif
