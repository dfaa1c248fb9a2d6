/*
 * How much memory the processes of a pid namespace use, by its procfs, but for
 * its pid 1; with @below of ours only those that descend from it.
 * Thread-safe; a process that ends meanwhile counts as nothing.
 */
#ifndef SANDLOCK_SUPERVISE_MEMORY_USE_H
#define SANDLOCK_SUPERVISE_MEMORY_USE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct memory_use {
	uint64_t used;	 /* bytes of private memory, also in swap */
	uint64_t shared; /* of shared memory and files in memory, if mapped */
	/* The process that uses most: an fd of its directory there, which
	 * pidfd_send_signal takes, or -1. */
	int largest_fd;
};

/*
 * Counts pages that processes share after a fork for each of them, and what
 * they share otherwise too: cheap, and never too little.
 */
int memory_use_guess(int proc_fd, pid_t below, struct memory_use *ret);
/*
 * Counts them once. Costs a walk over all page tables; finds the largest,
 * whose fd is the caller's.
 */
int memory_use_count(int proc_fd, pid_t below, struct memory_use *ret);
/* Bytes in the file system of directory @fd; 0 if that cannot be known. */
uint64_t memory_use_of_files(int fd);

#endif
