/*
 * A seccomp filter as the bytes of a compiled program. libseccomp compiles;
 * what it made is cached (DESIGN section 9), keyed by the whole input, which
 * is stored beside the program and compared.
 */
#ifndef SANDLOCK_KERNEL_SECCOMP_H
#define SANDLOCK_KERNEL_SECCOMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct error;
struct log_sink;
struct spec_seccomp;

struct seccomp_program {
	void *insns; /* owned; struct sock_filter[] */
	size_t n_insns;
	unsigned int flags; /* SECCOMP_FILTER_FLAG_* */
	bool has_notify;
	bool traps_io;	 /* read or write are among what is notified of */
	bool traps_exec; /* execve is */
};

void seccomp_program_done(struct seccomp_program *p);

/*
 * Compiles @s, or takes it from the cache in directory @cache_dir (made 0700
 * if missing; NULL: no cache). A cache that cannot be used is no error. Names
 * of system calls that libseccomp does not know are skipped (debug line).
 */
int seccomp_program_get(const struct spec_seccomp *s, const char *cache_dir,
			const struct log_sink *log, struct seccomp_program *ret,
			struct error *err);

/* System calls of one architecture, AUDIT_ARCH_*. */
struct seccomp_numbers {
	uint32_t arch;
	const int *v;
	size_t n; /* at most 64 */
};

/*
 * A program that tells a listener of the system calls of both @numbers (of the
 * second there may be none) and lets everything else pass; it is loaded beside
 * whatever other filter there is, whose refusals come first. ERR_SYSTEM.
 */
int seccomp_program_listen(const struct seccomp_numbers numbers[2],
			   struct seccomp_program *ret, struct error *err);

/*
 * Where the cache is: $SANDLOCK_CACHE/seccomp ("none": NULL), for root
 * /var/cache/sandlock/seccomp, else $XDG_CACHE_HOME/sandlock/seccomp or
 * ~/.cache/sandlock/seccomp; NULL where there is no place. 0 or -ENOMEM.
 */
int seccomp_cache_dir(char **ret);

/* Loads the program into the calling thread; the listener fd or 0. */
int seccomp_program_load(const struct seccomp_program *p, struct error *err);

/* What libseccomp of this build can do; for `features`. NULL-terminated. */
const char *const *seccomp_action_names(void);
const char *const *seccomp_operator_names(void);
const char *const *seccomp_arch_names(void);
const char *const *seccomp_flag_names(void);
const char *const *seccomp_supported_flag_names(void);
/* "2.5.4" */
const char *seccomp_library_version(void);

#endif
