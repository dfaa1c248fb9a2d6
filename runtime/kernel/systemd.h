/*
 * The service manager of the host, as the owner of cgroups: the few calls of
 * org.freedesktop.systemd1(5) that it takes to have a scope.
 *
 *	systemd_start_scope -> (processes) -> systemd_set, systemd_attach
 *		-> systemd_stop
 *
 * They are made by busctl(1), which comes with systemd: one process of its own
 * a call, and no library of D-Bus in us. Orders are queued: a call returns
 * when systemd has taken it on. The bus is the system's, or with @user that of
 * the user's own manager.
 */
#ifndef SANDLOCK_KERNEL_SYSTEMD_H
#define SANDLOCK_KERNEL_SYSTEMD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"

struct error;

/* Properties of a unit, as words for busctl. */
struct systemd_props {
	struct buf words;
	size_t n;
};
#define SYSTEMD_PROPS_INIT         \
	{                          \
		.words = BUF_INIT, \
	}

void systemd_props_done(struct systemd_props *p);
void systemd_add_text(struct systemd_props *p, const char *name,
		      const char *value);
void systemd_add_bool(struct systemd_props *p, const char *name, bool value);
void systemd_add_number(struct systemd_props *p, const char *name, uint64_t v);
void systemd_add_pid(struct systemd_props *p, const char *name, pid_t pid);
void systemd_add_bytes(struct systemd_props *p, const char *name,
		       const uint8_t *v, size_t n);

/* a(ss): @n pairs, as words in @pairs. */
void systemd_add_pairs(struct systemd_props *p, const char *name, size_t n,
		       const struct buf *pairs);

int systemd_start_scope(bool user, const char *unit,
			const struct systemd_props *p, struct error *err);
/* Until the unit ends, not in its files. */
int systemd_set(bool user, const char *unit, const struct systemd_props *p,
		struct error *err);
/* Moves a process into a unit that has Delegate=, also where we may not. */
int systemd_attach(bool user, const char *unit, pid_t pid, struct error *err);
int systemd_stop(bool user, const char *unit, struct error *err);
/* Forgets that it has failed, so that the name is free. */
int systemd_reset_failed(bool user, const char *unit, struct error *err);

enum systemd_state {
	SYSTEMD_ABSENT,	 /* no such unit */
	SYSTEMD_WAITING, /* a job for it is under way */
	SYSTEMD_STARTED,
	SYSTEMD_ENDED, /* or failed, and still remembered */
};
int systemd_state(bool user, const char *unit, enum systemd_state *ret,
		  struct error *err);

#endif
