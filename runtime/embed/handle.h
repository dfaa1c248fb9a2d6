/*
 * A sandbox as an object, from the embedder's side; what handle.c, flight.c
 * and decide.c share.
 *
 *	flight.c	one run: its supervisor, what it says, its streams
 *	handle.c	the calls that make, run and watch it
 *	decide.c	pending: publish, discard
 *	policy.c, handlers.c	who is called back
 */
#ifndef SANDLOCK_EMBED_HANDLE_H
#define SANDLOCK_EMBED_HANDLE_H

#include <pthread.h>

#include "api.h"
#include "base/buf.h"
#include "embed/channel.h"
#include "embed/report.h"
#include "embed/spawn.h"

struct request;

/*
 * Whoever serves calls back from the supervisor of a sandbox, over a socket of
 * its own (struct spawned, guests), on threads of its own:
 *
 *	begin -> (the thread) -> flight_guest_done -> end
 *
 * The thread ends when the socket does, and after the last call back. No run is
 * over before.
 */
struct guest {
	int (*begin)(void *data, int sock, struct error *err);
	/* Joins the thread; without the lock. */
	void (*end)(void *data);
	/* With the handle. */
	void (*free)(void *data);
	void *data;
};

/* One run. Belongs to whoever holds the lock, but for what says otherwise. */
struct flight {
	struct spawned process; /* pid 0: none */
	int pidfd;
	pid_t pid;
	unsigned int guests_here; /* a mask: begun, and not ended */
	unsigned int guests_busy; /* how many */
	bool created, started;
	bool half_known; /* created, but there was no memory for its name */
	bool over;	 /* it has said its last word, or is dead */
	bool concluded;
	bool ended; /* it has said how it ended */
	bool lost;  /* dead without a word */
	struct error error;
	struct channel_end end;
	bool asking, answered;
	int answer;
	struct error answer_error;
	struct buf answer_text;
	/* The reader's own. */
	struct channel_msg *msg;
	struct capture {
		struct buf data;
		bool cut;
	} out, err;
	bool capture_out, capture_err;
	size_t capture_max;
};

struct sandlock_sandbox {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* monotonic */
	pid_t owner; /* a child that he forks has a copy, and no sandbox */
	struct sandlock_env env;
	struct request *request;
	enum sandlock_sandbox_state state;
	bool busy;    /* somebody creates, starts, commits or aborts */
	bool reading; /* somebody reads what the supervisor says */
	struct guest guests[GUESTS]; /* begin NULL: none */
	/* A stage: the transaction says when it may run, see sandbox.h. */
	bool is_stage, may_run;
	bool join, hand_on, savepoints;
	size_t stage;
	struct flight flight;
	char *name;
	struct root *roots; /* none without a branch */
	size_t n_roots;
	bool pending;
	bool nothing; /* pending, but there is no branch on disk */
	struct sandlock_report report;
	struct error failure; /* why there is no report */
};

/* flight.c; all with the lock held. */
int flight_begin(struct sandlock_sandbox *s, struct sandlock_launch *l,
		 struct error *err);
/*
 * Reads what the supervisor says until @done, at most until @end_ms on
 * CLOCK_MONOTONIC (-1: for ever): -ETIMEDOUT. Lets go of the lock meanwhile;
 * one thread reads for all.
 */
typedef bool flight_done_fn(const struct sandlock_sandbox *s);
int flight_pump(struct sandlock_sandbox *s, flight_done_fn *done,
		int64_t end_ms);
/* To the first process of the payload; 0 or a negative errno. */
int flight_signal(const struct flight *f, int sig);
/* Closes and reaps; the supervisor has to be over, or to see an end. */
void flight_end(struct sandlock_sandbox *s);
/* Closes and frees in a forked child, whatever the lock is there. */
void flight_forget(struct sandlock_sandbox *s);
/* By the guest's thread, as the last thing; takes the lock. */
void flight_guest_done(struct sandlock_sandbox *s);

/* handlers.c: what the supervisor has to know of them. */
void handlers_each_setting(const struct sandlock_sandbox *s,
			   void (*fn)(void *data, const char *key,
				      const char *value),
			   void *data);

/* handle.c: strings that are ours. */
int handle_copy_env(const struct sandlock_env *from, struct sandlock_env *to);
void handle_free_env(struct sandlock_env *env);

/* handle.c: kills what runs and waits for it, undoes what was created. */
void handle_end(struct sandlock_sandbox *s);
/* handle.c: the lock, and then nobody else is busy. */
void handle_begin(struct sandlock_sandbox *s);
/* The same, but ERR_STATE for a thread that would wait for itself. */
int handle_enter(struct sandlock_sandbox *s, struct error *err);
void handle_finish(struct sandlock_sandbox *s);
/* Of this thread, which calls what the embedder gave us: whoever creates,
 * starts or waits for @s may be waiting for it. */
void handle_calls_back(const struct sandlock_sandbox *s);

/* decide.c: discards the branch @name, if it was handed on to us. */
void decide_discard(const struct sandlock_env *env, const char *name);
/* Likewise: goes back to the end of stage @n. */
int decide_roll_back(const struct sandlock_env *env, const char *name, size_t n,
		     struct error *err);
/*
 * Likewise: settles it, with a disposition other than was asked for. Unless
 * @success nobody knows how it ended, and it waits.
 */
int decide_settle(const struct sandlock_env *env, const char *name,
		  enum disposition d, bool success, bool force,
		  struct sandlock_result *ret, struct error *err);

/* decide.c: after the end, whether there is something to decide. */
void decide_pending(struct sandlock_sandbox *s);

#endif
