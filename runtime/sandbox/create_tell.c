/* What create, run and exec tell their caller: --pid-file, --pidfd-socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "kernel/tty.h"
#include "sandbox/create.h"

int create_write_pid_file(const char *path, pid_t pid, struct error *err)
{
	char text[16];
	int n = snprintf(text, sizeof(text), "%d", (int)pid);
	const char *slash = strrchr(path, '/');
	auto_free char *dir =
		slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	auto_close int dir_fd = -1;
	int r = 0;

	if (!dir)
		return error_set(err, ERR_SYSTEM, ENOMEM, "pid file");
	dir_fd = open(dir, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (dir_fd < 0)
		r = -errno;
	else
		r = fd_write_atomic(dir_fd, slash ? slash + 1 : path, text,
				    (size_t)n, 0644, false);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write pid file '%s'", path);
	return 0;
}

int create_send_pidfd(const char *path, int pidfd, struct error *err)
{
	int sock = tty_console_connect(path, err), r;

	if (sock < 0)
		return sock;
	r = fd_send(sock, "pidfd", 5, &pidfd, 1);
	(void)close(sock);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot send the pidfd to '%s'", path);
	return 0;
}
