/*
 * Network devices of the host that a sandbox takes over (linux.netDevices of
 * runtime-spec 1.3). They are never given back: a physical one returns by
 * itself when the namespace ends. By rtnetlink(7).
 */
#ifndef SANDLOCK_KERNEL_NETDEV_H
#define SANDLOCK_KERNEL_NETDEV_H

#include <stddef.h>
#include <sys/types.h>

struct error;
struct spec_net_device;

/*
 * Moves the devices from our network namespace into that of process @pid,
 * renames them ("eth%d": the first free number), puts their permanent global
 * addresses back and sets them up. A name that is taken there, or a device
 * that is not here, is an error before that device is touched. Works in a
 * child: the calling thread stays in its namespace.
 */
int netdev_move(const struct spec_net_device *v, size_t n, pid_t pid,
		struct error *err);

#endif
