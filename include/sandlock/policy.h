/*
 * Callbacks that decide about what a sandbox opens, executes and connects to,
 * and take rights away from it while it runs.
 */
#ifndef LIBSANDLOCK_POLICY_H
#define LIBSANDLOCK_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "sandbox.h"

SANDLOCK_BEGIN

/*
 * A system call that a callback decides about. Strings may be NULL and hold any
 * bytes; all of it lives as long as the call of the callback.
 *
 * Held are execve, execveat, the open family, and of a bundle or where a
 * command of the host shares the network connect, sendto, sendmsg, sendmmsg and
 * bind, if rules let them. A verdict grants nothing that rules, mounts or the
 * kernel refuse. The execve of the command itself comes first, with no
 * @program; a deferred callback is told of it, and can take away by its
 * context, but has no approval to answer.
 *
 * Paths are those inside, of a bundle too. A bundle has to have
 * process.noNewPrivileges and mount and pid namespaces of its own, and no
 * seccomp agent (ERR_UNSUPPORTED when it is created); its filter comes first,
 * and what that or the kernel refuses nobody is told of. What would get past
 * the callback is refused in it, whatever its capabilities: mounts, namespaces,
 * handles of files, io_uring, sockets other than of TCP, UDP, ICMP, unix and
 * NETLINK_ROUTE; 32-bit calls kill. Of one with a security label, or Landlock's
 * annotation, the network is not held, and restricting it ends the sandbox.
 *
 * What rules refuse is told of, with @denied, as far as it is on record
 * (sandlock_denials): there is nothing to decide, verdicts do not count. Of
 * many at once some are left out (64 wait at most); questions overtake them.
 * What the callback itself has denied does not come again; what it did not
 * answer in time does.
 */
struct sandlock_event {
	const char *syscall;  /* "execve" */
	const char *category; /* "file", "network", "process", "memory" */
	pid_t pid, parent_pid;
	const char *program; /* of the caller; NULL: a command is started */
	const char *path;    /* what is opened or executed */
	bool writes;	     /* it is opened for more than reading */
	const char *host;    /* numeric */
	uint16_t port;
	const char *protocol; /* "tcp", "udp" */
	const char *const *argv;
	size_t n_argv;
	bool is_cut; /* argv, or a path, was too long to be passed whole */
	bool denied; /* a rule denies it: nothing to decide */
	/* What the kernel executes a script with ("#!"); NULL: it is none. */
	const char *interpreter;
};

/* What a callback may do besides; not to be used after it has returned. */
struct sandlock_context;

/* Verdicts; a positive one is the errno that the caller gets. */
enum {
	SANDLOCK_VERDICT_ALLOW = 0,
	SANDLOCK_VERDICT_DENY = -1, /* EPERM */
	SANDLOCK_VERDICT_AUDIT = -2 /* allow; all verdicts are on record */
};

/*
 * Called on a thread of the library's own, one call at a time, and never again
 * once the run is over; a run is not over while it is in a call. What is not
 * decided within 5 s ("ask.timeout") is denied.
 */
typedef int sandlock_policy_fn(void *data, const struct sandlock_event *e,
			       struct sandlock_context *ctx);

/*
 * The same, but the answer may come later, from any thread (within 120 s, 20 s
 * for the network): @a is the callback's, to be freed once. NULL where there is
 * nothing to decide.
 */
struct sandlock_approval;
typedef void sandlock_deferred_fn(void *data, const struct sandlock_event *e,
				  struct sandlock_context *ctx,
				  struct sandlock_approval *a);

/*
 * From now on, the call that is decided about included, process @pid and what
 * descends from it (0: all that have no rules of their own) reaches only what
 * @rules allow: as network.allow, without host names; none: nothing. Never more
 * than the request's own rules, and only where the network is shared. Of a
 * process this takes the place of what was said of it before, and it alone
 * counts; what is taken from all is taken for good, and adds up. ERR_USAGE,
 * ERR_STATE.
 */
int sandlock_context_restrict_network(struct sandlock_context *ctx, pid_t pid,
				      const char *const *rules, size_t n,
				      struct sandlock_error *err);

/*
 * Adds @rules to what process @pid, and what descends from it, may reach by
 * rules of its own, still within the request's; it changes nothing where there
 * are none. 0 stands for all: what was taken from all is not given back
 * (EPERM), and without that nothing is missing. ERR_USAGE, ERR_STATE.
 */
int sandlock_context_grant_network(struct sandlock_context *ctx, pid_t pid,
				   const char *const *rules, size_t n,
				   struct sandlock_error *err);

/*
 * From now on the processes of the sandbox together use at most @bytes of
 * memory, and are at most @n; both at least 1. For good: only less can be asked
 * for later, and what is no less than what is in force changes nothing. As with
 * limits.memory and limits.processes; what runs goes on, but who uses too much
 * memory already is killed. What cannot be set ends the sandbox. ERR_USAGE,
 * ERR_STATE.
 */
int sandlock_context_restrict_max_memory(struct sandlock_context *ctx,
					 uint64_t bytes,
					 struct sandlock_error *err);
int sandlock_context_restrict_max_processes(struct sandlock_context *ctx,
					    uint32_t n,
					    struct sandlock_error *err);

/*
 * From now on, the call that is decided about included, nothing at or below the
 * absolute path @path is opened or executed (EACCES); what is open stays open,
 * and what the sandbox may write it may rename or link, to open it there.
 * allow_path takes that back, and nothing else. ERR_USAGE, ERR_STATE.
 */
int sandlock_context_deny_path(struct sandlock_context *ctx, const char *path,
			       struct sandlock_error *err);
int sandlock_context_allow_path(struct sandlock_context *ctx, const char *path,
				struct sandlock_error *err);

/*
 * Before the first run; @free_fn (or NULL) is called on @data once, after the
 * last callback, by sandlock_sandbox_free, or here on failure. One of the two
 * may be set, once. ERR_STATE.
 */
int sandlock_sandbox_set_policy(struct sandlock_sandbox *s,
				sandlock_policy_fn *fn, void *data,
				void (*free_fn)(void *data),
				struct sandlock_error *err);
int sandlock_sandbox_set_deferred_policy(struct sandlock_sandbox *s,
					 sandlock_deferred_fn *fn, void *data,
					 void (*free_fn)(void *data),
					 struct sandlock_error *err);

/*
 * Answers, once: 0, or -EALREADY where it was answered before, -ECANCELED where
 * nobody waits any more, -ETIMEDOUT where it comes too late. Does not free. One
 * thread at a time for each approval.
 */
int sandlock_approval_resolve(struct sandlock_approval *a, int verdict);
/* True once an answer would be -ECANCELED or -ETIMEDOUT. */
bool sandlock_approval_is_cancelled(const struct sandlock_approval *a);
/* Denies, if it was not answered. NULL is fine. */
void sandlock_approval_free(struct sandlock_approval *a);

SANDLOCK_END

#endif
