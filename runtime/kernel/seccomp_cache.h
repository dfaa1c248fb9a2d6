/*
 * Compiled seccomp programs on disk, for kernel/seccomp.c alone.
 *
 *	<dir>/<checksums of the key>	header, key, program
 *
 * The key is everything the program depends on. It is stored and compared, the
 * name only finds the file. The directory is ours and 0700, checked by
 * fd, so the checksum guards against damage and not against an attacker. What
 * is not as it should be counts as a miss. Thread-safe.
 */
#ifndef SANDLOCK_KERNEL_SECCOMP_CACHE_H
#define SANDLOCK_KERNEL_SECCOMP_CACHE_H

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct log_sink;
struct spec_seccomp;

/* Appends the canonical form of @s, the library's version and the machine. */
void seccomp_cache_key(const struct spec_seccomp *s, struct buf *key);

/* True and a malloc'ed program on a hit. */
bool seccomp_cache_get(const char *dir, const struct buf *key,
		       const struct log_sink *log, void **ret_insns,
		       size_t *ret_n);

/* Makes the directory where it is missing; a failure is only logged. */
void seccomp_cache_put(const char *dir, const struct buf *key,
		       const void *insns, size_t n, const struct log_sink *log);

#endif
