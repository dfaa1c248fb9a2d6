/*
 * Landlock: what a process and its descendants may do with files, TCP ports,
 * signals and abstract sockets, whatever user they are.
 *
 * Every right that the running kernel knows is handled, so what no rule allows
 * is denied. A right that it does not know is an error, unless the protection
 * may be degraded or is disabled. Restrictions cannot be taken back, and
 * afterwards the process can mount nothing: so this comes after the pivot.
 * Acts on the calling thread. What Landlock cannot refuse at all (chmod, chown,
 * utimes, setxattr, stat) is up to mounts and namespaces.
 */
#ifndef SANDLOCK_KERNEL_LANDLOCK_H
#define SANDLOCK_KERNEL_LANDLOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;

enum landlock_access {
	LANDLOCK_READ = 1 << 0,	 /* read files, list directories */
	LANDLOCK_EXEC = 1 << 1,	 /* execute files */
	LANDLOCK_WRITE = 1 << 2, /* write and truncate existing files */
	LANDLOCK_MAKE = 1 << 3,	 /* make, remove, rename, link */
	LANDLOCK_IOCTL = 1 << 4, /* ioctl on devices */
	LANDLOCK_ALL = (1 << 5) - 1,
	LANDLOCK_LIST = 1 << 5, /* list directories; part of READ */
};

struct landlock_rule {
	const char *path; /* absolute; used if fd is -1 */
	int fd;		  /* O_PATH, borrowed; what it is and all below */
	unsigned int access;
	bool optional; /* a path that does not exist is no error */
};

struct landlock_rules {
	const struct landlock_rule *paths;
	size_t n_paths;
	/* TCP ports that may be connected to and bound; with any_ those of a
	 * kind are not restricted at all. */
	const uint16_t *connect, *bind;
	size_t n_connect, n_bind;
	bool any_connect, any_bind;
	uint32_t allow_degraded, disabled; /* 1 << enum protection */
};

/* The ABI of the running kernel, 0 where there is no Landlock. */
int landlock_abi(void);

/* How many file rights, network rights and scopes an ABI has. */
unsigned int landlock_count_fs(int abi);
unsigned int landlock_count_net(int abi);
unsigned int landlock_count_scopes(int abi);

/*
 * Whether the running kernel has all that is not degradable or disabled; for
 * plans, so that the refusal comes before anything was made. ERR_UNSUPPORTED
 * names the protection, what it needs and the flag.
 */
int landlock_check(uint32_t allow_degraded, uint32_t disabled,
		   struct error *err);

/*
 * Restricts the calling thread. It takes no_new_privs, or CAP_SYS_ADMIN in our
 * user namespace. A kernel without any Landlock restricts nothing, and is an
 * error unless every protection may be degraded or is disabled.
 */
int landlock_restrict(const struct landlock_rules *r, struct error *err);

/*
 * Restricts nothing of the calling thread but signals: what descends from it
 * can be signalled by it, also what is restricted further by then, and nobody
 * else; and kill(-1) reaches all of that at once. As landlock_restrict, it
 * takes no_new_privs.
 */
int landlock_scope_signals(struct error *err);

#endif
