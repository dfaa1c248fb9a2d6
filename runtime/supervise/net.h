/*
 * The network of a sandbox that shares the one of the host: every system call
 * that says where to go is trapped, and carried out here on behalf of the
 * caller, never by itself.
 *
 *	copy the arguments, once -> decide on the copy -> do it, with the
 *	copied address, on a duplicate of the caller's socket
 *
 * So nothing that other threads of the caller do to its memory or to its table
 * of descriptors can make a difference between what was judged and what is
 * done. What may wait runs in LANE_EXTERNAL and waits as the kernel would:
 * signals, SO_SNDTIMEO and O_NONBLOCK count, a slow peer stalls its caller
 * alone.
 *
 * Two calls of unix sockets are the kernel's own, because a path belongs to the
 * caller's view: bind of a path, and listen. See docs/threats.md.
 */
#ifndef SANDLOCK_SUPERVISE_NET_H
#define SANDLOCK_SUPERVISE_NET_H

#include <stdbool.h>
#include <stddef.h>

#include "base/cleanup.h"
#include "policy/net.h"
#include "supervise/handler.h"

struct asker;
struct buf;
struct denials;
struct error;
struct json_out;
struct net;
struct request;

struct net_options {
	const struct net_rules *rules; /* borrowed, pinned */
	bool remap;		       /* ports that are bound are virtual */
	pid_t init; /* adopts orphans of the sandbox; 0: not known */
	/* In whose user namespace callers are; 0: in ours. */
	pid_t userns_of;
	/* Restricts the calling process as callers are; or NULL. */
	int (*confine)(void *data);
	void *confine_data;
	/*
	 * Whether what is bound at a path, a real one, may be connected to
	 * without a rule. NULL: what lies on a mount that can be written.
	 * Given for callers whose root is ours.
	 */
	bool (*is_own_path)(const void *data, const char *path);
	const void *path_data;
	/*
	 * A bundle's: rules are for inet alone, and all else is for the kernel
	 * to say, as if the caller had done it. Paths of unix sockets and
	 * listen are not judged.
	 */
	bool is_own_network;
	struct denials *denials;   /* or NULL */
	const struct asker *asker; /* or NULL: what has to be asked is denied */
	const struct request
		*request; /* borrowed: where rules stand; or NULL */
};

enum { NET_ROWS = 20 };

struct net *net_new(const struct net_options *o);
void net_free(struct net *n);
CLEANUP_PTR(struct net, net_free);

/* The one child of init that is no orphan; before the first call. */
void net_set_first(struct net *n, pid_t first);

/*
 * Holds @c, one of connect, bind, listen and the calls that send, to the
 * socket, the addresses and the bytes that it names now: who decides about it
 * before the rows come decides on what they will use. No more than 1 MiB is
 * sent then (where CALL_CAPTURED_MAX is used up 4 KiB), and of a sendmmsg only
 * the first messages. The first time only; 0 or a negative errno.
 */
int net_capture(struct call *c);

/* Fills @ret with the rows of the trapped calls; they borrow @n. */
size_t net_rows(struct net *n, struct handler ret[NET_ROWS]);

/*
 * From now on @process and what descends from it, or with 0 all that have no
 * rules of their own, reaches only what @rules allow (no host names), and never
 * more than the request's rules do. What was said of a process before gives way
 * to it; what was taken from all stays taken: they reach what every such list
 * allows.
 * An orphan could be anybody's: it reaches what every process may that has
 * rules.
 * ERR_USAGE, ERR_NOT_FOUND, ERR_STATE. Thread-safe.
 */
int net_restrict(struct net *n, pid_t process, const char *const *rules,
		 size_t n_rules, struct error *err);

/* Adds to what the process, and what descends from it, may reach by rules of
 * its own; without any this changes nothing. Errors as above. */
int net_grant(struct net *n, pid_t process, const char *const *rules,
	      size_t n_rules, struct error *err);

/*
 * What net_restrict has in force: an array of objects with "pid", null for all
 * that have no rules of their own, and "allow", rules.
 */
void net_restrictions_json(struct net *n, struct json_out *o);

/* What is remapped now, as JSON; "{}" without remapping. -ENOMEM. */
int net_ports_json(struct net *n, struct buf *ret);

#endif
