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

/*
 * Replaces the process. @status_fd (inherited by the launcher) gets an errno
 * as int if the program cannot be executed. With @init the launcher stays as
 * pid 1 and the program is its child. Returns only if the launcher itself
 * cannot be executed.
 */
int launcher_exec(int launcher_fd, int status_fd,
		  const struct launcher_filters *f, bool init, const char *path,
		  char *const *argv, char *const *envp, struct error *err);

#endif
