/*
 * A process in a pid namespace where somebody may look into every process from
 * its first moment (CAP_SYS_PTRACE, and no user namespace). Who makes it stays
 * outside of that namespace, does all there that takes rights or our program,
 * lays both down, and becomes the launcher, which clones (launcher.h).
 */
#ifndef SANDLOCK_SANDBOX_BESIDE_H
#define SANDLOCK_SANDBOX_BESIDE_H

#include <sys/types.h>

struct error;
struct spec_process;

struct beside {
	int sync_fd;	  /* of the one who makes it, and then of the process */
	const char *name; /* of the sandbox */
	const struct spec_process *process;
	/* The maker, our child; afterwards the process, which waits for a byte.
	 */
	pid_t pid;
	int pidfd;
};

/*
 * Tells the maker, who is ready, to go on, and follows it to its clone. Where
 * that fails the maker is still there, or the clone that it says it has made
 * finds @sync_fd closed and ends.
 */
int beside_follow(struct beside *b, struct error *err);

#endif
