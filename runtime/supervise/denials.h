/*
 * What was refused to a sandbox, and why: a bounded record.
 *
 * The same refusal (code, call, object, rule, program) again is counted, not
 * kept again. At most DENIALS_MAX are kept; one more takes the place of the
 * oldest, which is counted as dropped. Objects and names of programs are the
 * sandbox's words: bounded, copied once, and escaped by whoever prints them.
 *
 * Thread-safe. No call blocks for longer than a copy takes, so that handlers
 * of LANE_INLINE may add.
 */
#ifndef SANDLOCK_SUPERVISE_DENIALS_H
#define SANDLOCK_SUPERVISE_DENIALS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/cleanup.h"

struct buf;
struct call;
struct denials;
struct event;

enum {
	DENIALS_MAX = 1000,
	DENIAL_OBJECT_MAX = 512, /* bytes; what is cut ends in "..." */
	DENIAL_TEXT_MAX = 256,	 /* of rule, where and remedy */
};

struct denial {
	/*
	 * In the kernel's words: "fs.read_file", "net.connect_tcp",
	 * "syscall.mount"; ours where it has none.
	 */
	const char *code;
	const char *call;   /* "connect" */
	int error;	    /* what the caller got; 0: an empty file */
	const char *object; /* "192.0.2.1:443", a path; NULL: none */
	const char *rule;   /* "network.deny 192.0.2.0/24"; NULL: no rule
			       allows it */
	const char *where;  /* "dev.toml:12:3", "--net-deny"; or NULL */
	const char *remedy; /* the narrowest option that would allow it:
			       "--net-allow 192.0.2.1:443"; NULL: none would */
	/* For denials_observe, and not kept: what the strings above do not say,
	 * but for the caller; or NULL. */
	const struct event *event;
	bool is_told;	/* who observes has decided it */
	uint64_t times; /* so often, 0: once; not kept, see count */
};

/* What a limit refuses; points into itself. */
struct denial_of_limit {
	struct denial what;
	char rule[64], remedy[64];
};
/* Of memory or the branch, or of processes: @n bytes, or so many. */
void denial_of_memory(struct denial_of_limit *ret, uint64_t n);
void denial_of_disk(struct denial_of_limit *ret, uint64_t n);
void denial_of_processes(struct denial_of_limit *ret, uint64_t n);

/* One that is kept. Names may hold any bytes. */
struct denial_record {
	struct denial what;
	uint64_t id; /* 1 and up, in the order of the first time */
	uint64_t count;
	struct timespec first, last;
	pid_t pid;	     /* of the last time; 0: unknown */
	const char *program; /* "": unknown */
};

/* NULL on ENOMEM. */
struct denials *denials_new(void);
void denials_free(struct denials *d);
CLEANUP_PTR(struct denials, denials_free);

/*
 * Records what was refused to process @pid; everything is copied. @d may be
 * NULL: nothing is recorded. Running out of memory loses the record, which is
 * counted as dropped.
 */
void denials_add(struct denials *d, pid_t pid, const struct denial *x);
/* The same for the caller of @c. */
void denials_add_call(struct denials *d, struct call *c,
		      const struct denial *x);

/*
 * Called for each record that is new or was counted up, with its JSON object;
 * on the thread that adds, with a lock held: it must not add. NULL: nobody.
 */
typedef void denials_told_fn(void *data, const char *json);
void denials_tell(struct denials *d, denials_told_fn *fn, void *data);

/*
 * Told of each refusal to a call, as an event, on the thread that refuses and
 * without a lock: @see must not wait. It is not made where there is no room.
 * NULL: nobody; not while handlers run.
 */
struct denials_observer {
	void *data;
	bool (*has_room)(void *data);
	void (*see)(void *data, const struct event *e);
};
void denials_observe(struct denials *d, const struct denials_observer *o);

/*
 * {"denials":[...],"next":N,"dropped":N}: the records that are newer than
 * number @after, oldest first, as many as fit into @max bytes; "next" is null
 * after the last one. -ENOMEM.
 */
int denials_page(struct denials *d, uint64_t after, size_t max,
		 struct buf *ret);
/*
 * Calls @fn for each, oldest first, until it returns something else than 0,
 * which is returned. A lock is held: it must not add.
 */
typedef int denial_fn(void *data, const struct denial_record *r);
int denials_each(struct denials *d, denial_fn *fn, void *data);

/* A record from its JSON object, whose strings it borrows. */
struct json;
void denial_from_json(const struct json *j, struct denial_record *ret);

/* How many are kept. */
size_t denials_count(struct denials *d);

#endif
