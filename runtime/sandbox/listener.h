/* linux.seccomp.listenerPath: handing the notification fd to an agent. */
#ifndef SANDLOCK_SANDBOX_LISTENER_H
#define SANDLOCK_SANDBOX_LISTENER_H

#include <sys/types.h>

struct error;
struct sandbox_state;
struct spec;

/*
 * Takes fd @remote_fd of the process behind @pidfd, connects to the agent and
 * sends one ContainerProcessState with the fd in the first message
 * (runtime-spec config-linux.md "Seccomp listener").
 */
int listener_hand_over(int pidfd, pid_t pid, int remote_fd,
		       const struct sandbox_state *state,
		       const struct spec *spec, struct error *err);

#endif
