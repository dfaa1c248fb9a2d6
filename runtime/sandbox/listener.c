#include "sandbox/listener.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/tty.h"
#include "sandbox/state.h"
#include "spec/spec.h"

int listener_hand_over(int pidfd, pid_t pid, int remote_fd,
		       const struct sandbox_state *state,
		       const struct spec *spec, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	auto_close int fd = -1;
	auto_close int sock = -1;
	const char *path = spec->seccomp->listener_path;
	int r = state_to_seccomp_json(state, spec, pid, &b, err);

	if (r < 0)
		return r;
	fd = (int)syscall(SYS_pidfd_getfd, pidfd, remote_fd, 0);
	if (fd < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot take the seccomp listener");
	sock = tty_console_connect(path, err);
	if (sock < 0)
		return error_wrap(err, "failed to connect with seccomp agent");
	r = fd_send(sock, b.data, b.len, &fd, 1);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot send the listener to seccomp agent "
				 "'%s'",
				 path);
	return 0;
}
