/* Shorter seccomp programs. */
#ifndef SANDLOCK_KERNEL_SECCOMP_SHRINK_H
#define SANDLOCK_KERNEL_SECCOMP_SHRINK_H

#include <stddef.h>

struct sock_filter;

/*
 * Replaces a program by one that answers the same to every call. The kernel
 * takes a quarter of a microsecond an instruction to load one, and profiles
 * allow long runs of numbers: what is decided by architecture and number alone
 * becomes a search among runs, what looks at arguments stays as it is.
 * One that is not understood, or would not get shorter, is left alone. Returns
 * 0 or -ENOMEM.
 */
int seccomp_shrink(struct sock_filter *insns, size_t *n_insns);

#endif
