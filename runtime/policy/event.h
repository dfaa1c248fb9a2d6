/*
 * What a person, a hook or an embedder is told of a system call: one event.
 * Plain data, copied from the caller once; nothing in it is trusted, and who
 * prints it escapes it. Pure.
 */
#ifndef SANDLOCK_POLICY_EVENT_H
#define SANDLOCK_POLICY_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"

struct buf;
struct json_out;

enum event_category {
	EVENT_FILE,
	EVENT_NETWORK,
	EVENT_PROCESS,
	EVENT_MEMORY,
};
/* "file", "network", "process", "memory". */
const char *event_category_name(enum event_category c);

/*
 * EVENT_TEXT_MAX, EVENT_ARGV_MAX: what is cut for who is asked, so that one
 * event fits into one message however much of it has to be escaped.
 */
enum {
	EVENT_DIGEST_LEN = 64,
	EVENT_TEXT_MAX = 1024,
	EVENT_ARGV_MAX = 4 * 1024,
};

struct event {
	const char *syscall; /* static */
	enum event_category category;
	pid_t pid, parent_pid; /* as the supervisor sees them */
	char *program;	       /* of the caller; NULL: unknown */
	char *path;	       /* file, program, or unix socket; NULL: none */
	/* What executes the file, if that is a script; or NULL. Borrowed. */
	const char *interpreter;
	bool writes; /* the file is opened for more than reading */
	char *host;  /* numeric; NULL: none */
	uint16_t port;
	const char *protocol; /* static: "tcp", "udp", "unix", or NULL */
	char *argv;	      /* words, each with its NUL; or NULL */
	size_t argv_len;
	bool denied; /* by a rule, before anybody was asked */
	bool starts; /* the sandbox's command: who starts it waits for it */
	bool is_launcher; /* who calls is ours, and no program of the sandbox */
};

/* A copy of its own, in one piece for free(3); NULL on ENOMEM. */
struct event *event_dup(const struct event *e);

/*
 * SHA-256, in hex, of what makes the request: call, program, object. Not of
 * pids: the same request of another process is the same request.
 */
void event_digest(const struct event *e, char ret[EVENT_DIGEST_LEN + 1]);
/* They have the same digest. */
bool event_is_alike(const struct event *a, const struct event *b);

/*
 * In words, escaped, at most about @max bytes of the object: "run 'cc -c a.c'",
 * "connect to 192.0.2.1:443", "write '/etc/hosts'". With what was left out
 * *@ret_cut is set (NULL is allowed).
 */
void event_describe(const struct event *e, size_t max, struct buf *ret,
		    bool *ret_cut);

/* The members of an object that is open. Long argv are cut ("argv_cut"). */
void event_to_json(const struct event *e, struct json_out *o);

/*
 * The same for another process of ours: texts hold what bytes they held.
 * event_unpack borrows @data; -EBADMSG, -ENOMEM.
 */
struct event_view {
	/* Each may be NULL. */
	const char *syscall, *program, *path, *interpreter, *host, *protocol;
	enum event_category category;
	pid_t pid, parent_pid;
	uint16_t port;
	bool writes, denied, is_cut, starts;
	const char **argv; /* ends with NULL; for event_view_done */
	size_t n_argv;
};
void event_pack(const struct event *e, struct buf *b);
int event_unpack(const char *data, size_t n, struct event_view *ret);
void event_view_done(struct event_view *v);

#endif
