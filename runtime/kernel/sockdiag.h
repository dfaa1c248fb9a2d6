/*
 * Which sockets of our network namespace exist still (sock_diag(7)), by their
 * cookies (SO_COOKIE), which are never used again. Thread-safe.
 */
#ifndef SANDLOCK_KERNEL_SOCKDIAG_H
#define SANDLOCK_KERNEL_SOCKDIAG_H

#include <stddef.h>
#include <stdint.h>

/* The cookie of a socket, or 0. */
uint64_t sockdiag_cookie(int socket_fd);

/*
 * Is one of @cookies a TCP or UDP socket (@protocol, IPPROTO_*) with the local
 * port @port? 1 or 0; a negative errno where that cannot be known. TCP sockets
 * that are bound but neither listen nor are connected are seen since 6.8.
 */
int sockdiag_find_inet(int protocol, uint16_t port, const uint64_t *cookies,
		       size_t n);

/* The same of one unix socket, by the inode number that fstat says. */
int sockdiag_find_unix(uint32_t ino, uint64_t cookie);

#endif
