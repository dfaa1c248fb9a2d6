/*
 * sd_notify(3) for bundles. Where NOTIFY_SOCKET is in our environment, the
 * container gets a socket of ours in its place, as runc does it: in a
 * directory of the runtime directory that is mounted read-only at /run/notify.
 * Of what it is sent only the line READY= goes on to the service manager, then
 * the pid that it is to watch, so that a payload says nothing else in our
 * name.
 *
 *	sdnotify_mount		create: the directory, the mount, the variable
 *	sdnotify_bind		start, run: the socket, before the payload runs
 *	sdnotify_forward	waits until it is ready, or has ended
 */
#ifndef SANDLOCK_SANDBOX_SDNOTIFY_H
#define SANDLOCK_SANDBOX_SDNOTIFY_H

#include <sys/types.h>

struct error;
struct spec;
struct rundir_slot;

/* Changes @s, which is about to be used. Does nothing without a manager. */
int sdnotify_mount(const struct rundir_slot *slot, struct spec *s,
		   struct error *err);

/*
 * *@ret_fd is left alone without a manager, and where create was not told of
 * one.
 */
int sdnotify_bind(const struct rundir_slot *slot, int *ret_fd,
		  struct error *err);

/*
 * Returns once READY= went on, or the process behind @pidfd has ended.
 * @main_pid: the manager is to watch it instead of us; it has heard of that
 * when this returns. 0: it goes on watching us. A manager that does not listen
 * is no error. Async-signal-unsafe, but on any thread.
 */
void sdnotify_forward(int fd, int pidfd, pid_t main_pid);

#endif
