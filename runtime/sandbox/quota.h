/*
 * The limit of what a branch takes on disk (--quota), kept by whoever waits for
 * the end of its sandbox, in a thread:
 *
 *	quota_begin -> (end is called, once it is more than may be)
 *	-> init has ended: quota_end
 *
 * No file system of an ordinary user keeps such a limit, so it is counted by
 * looking (branch/usage.h, kernel/held.h), as often as what is left and the
 * free space of the file system ask for it, and at the end once more. So it
 * can be exceeded by what is written between two looks, some ten milliseconds
 * of it where there is little to look at; where that happened, the sandbox
 * ends.
 */
#ifndef SANDLOCK_SANDBOX_QUOTA_H
#define SANDLOCK_SANDBOX_QUOTA_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct branch;
struct denials;
struct error;
struct exit_status;
struct sandbox_state;

struct quota_options {
	uint64_t bytes;
	/* All borrowed, until quota_end. The branch is only read. */
	struct branch *branch;
	const struct sandbox_state *state;
	int pidfd; /* of init */
	/* Ends all of it, on the quota's thread; init is dead soon after. */
	void (*end)(void *data);
	void *data;
};

/* Zero-initialised: there is none. */
struct quota {
	struct quota_options options;
	pthread_t thread;
	bool has_thread;
	int scratch_fd;
	bool is_exceeded; /* once it has ended */
	uint64_t used;	  /* what was found then, at least */
};

/* Nothing where options->bytes is 0. */
int quota_begin(struct quota *q, const struct quota_options *o,
		struct error *err);
/*
 * Init has ended, or dies: waits for the last look. What was exceeded turns
 * @status, of a process that has ended by itself or by us, into EXIT_QUOTA.
 */
void quota_end(struct quota *q, struct exit_status *status);
/* Puts that on record; @host: it was asked for by an option. */
void quota_add_denial(const struct quota *q, bool host, struct denials *d);

/*
 * Before anything runs: a branch that a stage goes on with may hold more
 * already. ERR_STATE.
 */
int quota_check(struct branch *b, uint64_t bytes, struct error *err);

#endif
