/*
 * A process that stands in for the caller of a trapped call: the kernel judges
 * what it does as if the caller had done it, and it can lay that down again.
 * For what a thread cannot do (see act.h): another user namespace, root
 * directory or umask, other capabilities.
 */
#ifndef SANDLOCK_SUPERVISE_DEPUTY_H
#define SANDLOCK_SUPERVISE_DEPUTY_H

#include <stdbool.h>
#include <sys/types.h>

struct deputy {
	pid_t tid;  /* of the caller */
	pid_t init; /* in whose user namespace it is; 0: in ours */
	/* In the deputy, with all rights in that namespace; NULL: nothing. */
	int (*prepare)(void *data);
	/* In the deputy, as the caller. */
	int (*work)(void *data);
	void *data;
	/*
	 * The ids that peers of sockets see are the caller's, too; there is no
	 * way back then.
	 */
	bool whole;
};

/*
 * Runs it to its end; it dies with us. What @work says, or a negative errno;
 * these pass through an exit status, and so are below 256.
 */
int deputy_run(const struct deputy *d);

/* For @work: all rights in the user namespace again. */
int deputy_become_all_powerful(void);

#endif
