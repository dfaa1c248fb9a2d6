/*
 * Executing the payload by way of the launcher (launcher/main.c says why).
 */
#ifndef SANDLOCK_SANDBOX_LAUNCHER_H
#define SANDLOCK_SANDBOX_LAUNCHER_H

#include <stdbool.h>

struct error;
struct seccomp_program;

/*
 * Makes the sealed memfd that launcher_exec executes; O_CLOEXEC. Done before
 * the payload's limits and confinement are in force.
 */
int launcher_open(int *ret_fd, struct error *err);

/* A memfd with the instructions of @p, for launcher_exec. */
int launcher_filter(const struct seccomp_program *p, int *ret_fd,
		    struct error *err);

/*
 * What a launcher that loaded a filter with a listener writes to its status fd
 * (a socket): the number of the listener in its process. It waits for one byte
 * before it executes the program.
 */
struct launcher_listener {
	int zero; /* no errno */
	/* With the listener itself in the message: the number of the process.
	 */
	int fd;
};

/* Programs, or NULL, with what launcher_filter has made of them. At most one
 * has a listener; @traps is loaded first. */
struct launcher_filters {
	const struct seccomp_program *traps, *filter;
	int traps_fd, filter_fd;
};

/* What becomes of the launcher, and of the program. */
struct launcher_way {
	bool init;   /* it stays as pid 1 and the program is its child */
	bool beside; /* it clones, as below, and ends */
	/* Of the program that is beside: */
	bool takes_terminal; /* its standard input is its controlling one */
	bool dies;	     /* with its parent */
	/* Not 0: after the byte on its status fd it waits for one on go_fd, and
	 * then its status fd is fail_fd. */
	int go_fd, fail_fd;
};

/*
 * For a pid namespace whose processes may look into the program's: the launcher
 * is outside, loads the filters, and clones a child of its own parent there.
 * Then it writes this to its status fd, a socket, and the child waits for one
 * byte. What the child has written is whoever's inside: ask who has sent it.
 */
struct launcher_beside {
	int sys; /* the errno of the clone, or 0 */
	int pid;
};

/*
 * Replaces the process. @status_fd (inherited by the launcher) gets an errno
 * as int if the program cannot be executed. Returns only if the launcher itself
 * cannot be executed.
 */
int launcher_exec(int launcher_fd, int status_fd,
		  const struct launcher_filters *f, struct launcher_way way,
		  const char *path, char *const *argv, char *const *envp,
		  struct error *err);

#endif
