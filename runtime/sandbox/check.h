/*
 * `check`: what this kernel, container and user can do, and what follows for
 * a sandbox. Everything is tried for real in children that are gone when it
 * returns; nothing is made that lasts.
 *
 *	check.c        the rows: from what was found to words
 *	check_probe.c  the children that try
 */
#ifndef SANDLOCK_SANDBOX_CHECK_H
#define SANDLOCK_SANDBOX_CHECK_H

#include <stdbool.h>
#include <stddef.h>

struct error;
struct sandbox_env;

enum check_state {
	CHECK_OK,
	CHECK_LIMITED, /* a default run works; something else does not */
	CHECK_MISSING, /* a default run needs it */
};

struct check_row {
	const char *name;
	enum check_state state;
	char *found;
	char *means; /* what follows where it is not CHECK_OK, else NULL */
	char *fix;   /* what to do about it, else NULL */
};

struct check {
	struct check_row *rows;
	size_t n;
	const char *tier; /* "A", "C", or NULL: no host command can run */
	int landlock_abi;
	bool usable; /* nothing is CHECK_MISSING */
};

int sandbox_check(const struct sandbox_env *env, struct check *ret,
		  struct error *err);
void check_done(struct check *c);

/* What the children found: 0, or the errno of what was refused. */
struct probe_namespaces {
	int user;    /* user namespace; 0 for root, who needs none */
	int mount;   /* mount, pid, network, ipc and uts namespaces */
	int overlay; /* an overlay with an upper layer */
	int proc;    /* a procfs of the new pid namespace */
};
struct probe_seccomp {
	int filter; /* a filter at all */
	int listener, killable, sync_wake, addfd_send;
};
int probe_namespaces(bool privileged, struct probe_namespaces *ret);
/*
 * False where nothing speaks against namespaces: no sysctl, filter or outer
 * user namespace. Then they need not be tried.
 */
bool probe_doubts(bool privileged, bool initial);
int probe_seccomp(struct probe_seccomp *ret);
/*
 * 0, or the errno of why a supervisor cannot be told of system calls: EBUSY
 * where somebody else is already, EINVAL before Linux 5.19. Asks the kernel;
 * only under a filter of others, which may have a listener, a child tries.
 */
int probe_listener(void);
/* 0, or the errno: a copy of a descriptor of another process (a container's
 * filter may refuse pidfd_getfd). */
int probe_getfd(void);
/* 0, or the errno: an exit status read from the pidfd (Linux 6.15). */
int probe_pidfd_info(void);

#endif
