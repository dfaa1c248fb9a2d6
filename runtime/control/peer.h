/*
 * Who is at the other end of a control socket. Only a process of our own uid
 * that lives in no sandbox may ask: a payload in a user namespace of its own
 * shows its owner's uid, so namespaces and root directory are compared, too.
 */
#ifndef SANDLOCK_CONTROL_PEER_H
#define SANDLOCK_CONTROL_PEER_H

#include <stdbool.h>

/* 0, or -EACCES. */
int peer_check(int sock);

#endif
