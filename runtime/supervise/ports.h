/*
 * Remapped ports: what a sandbox binds is a virtual port, and a free port of
 * the host stands behind it.
 *
 * Keyed by protocol and virtual port. A mapping lives as long as one of the
 * sockets that were bound to it, which is asked of the kernel when it matters:
 * nothing is trapped for it, and nothing is held open. Thread-safe.
 */
#ifndef SANDLOCK_SUPERVISE_PORTS_H
#define SANDLOCK_SUPERVISE_PORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "spec/net_rule.h"

struct buf;
struct ports;
struct sockaddr;

struct ports *ports_new(void);
void ports_free(struct ports *p);
CLEANUP_PTR(struct ports, ports_free);

/*
 * Binds @fd to @address (AF_INET or AF_INET6), whose port is the virtual one,
 * not 0; it is changed to the real one. All sockets of a virtual port share the
 * real one, so that the kernel's rules hold between them. 0 or a negative
 * errno.
 */
int ports_bind(struct ports *p, int fd, enum net_proto proto,
	       struct sockaddr *address, unsigned int len);

/* The real port behind a virtual one that is alive, else 0. */
uint16_t ports_real(struct ports *p, enum net_proto proto, uint16_t port);
/* The virtual port of a real one, else 0. */
uint16_t ports_virtual(struct ports *p, enum net_proto proto, uint16_t port);

/* True if one of @proto was ever remapped. */
bool ports_has(struct ports *p, enum net_proto proto);

/* {"8080":41234,"53/udp":41300}: what is alive. -ENOMEM. */
int ports_json(struct ports *p, struct buf *ret);

#endif
