/* System calls that are newer than a profile. */
#ifndef SANDLOCK_KERNEL_SECCOMP_NEWER_H
#define SANDLOCK_KERNEL_SECCOMP_NEWER_H

#include <stddef.h>
#include <stdint.h>

/* The highest number of an architecture (SCMP_ARCH_*) that a profile names. */
struct seccomp_newest {
	uint32_t arch;
	uint32_t nr;
};

/*
 * Puts instructions in front of a program that answer ENOSYS to what is newer
 * than the newest call that its profile names: libc tries an older call then,
 * but not after the EPERM of a default action. *@insns is reallocated. Returns
 * 0 or a negative errno.
 */
int seccomp_answer_newer(const struct seccomp_newest *v, size_t n, void **insns,
			 size_t *n_insns);

#endif
