#include "base/helper.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { HELPER_TIMEOUT_MS = 30 * 1000 };

/* Some are set-user-ID: never looked up in a stranger's $PATH. */
bool helper_find(const char *name, char ret[HELPER_PATH_MAX])
{
	static const char *const dirs[] = { "/usr/bin", "/bin",
					    "/usr/local/bin",
					    "/run/wrappers/bin",
					    "/run/current-system/sw/bin" };

	for (size_t i = 0; i < ARRAY_LEN(dirs); i++) {
		(void)snprintf(ret, HELPER_PATH_MAX, "%s/%s", dirs[i], name);
		if (access(ret, X_OK) == 0)
			return true;
	}
	return false;
}

void helper_done(struct helper *h)
{
	cleanup_close(&h->out_fd);
	if (h->pid > 0) {
		(void)kill(h->pid, SIGKILL);
		(void)waitpid(h->pid, NULL, 0);
	}
	*h = (struct helper)HELPER_INIT;
}

static int spawn_quiet(char *const argv[], int out_fd, pid_t *ret)
{
	static char *const env[] = { (char *)"PATH=/usr/sbin:/usr/bin:/bin",
				     (char *)"LC_ALL=C", NULL };
	posix_spawn_file_actions_t fa;
	posix_spawnattr_t at;
	sigset_t none, all;
	int r;

	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	if (posix_spawn_file_actions_init(&fa))
		return -ENOMEM;
	if (posix_spawnattr_init(&at)) {
		(void)posix_spawn_file_actions_destroy(&fa);
		return -ENOMEM;
	}
	(void)posix_spawnattr_setsigmask(&at, &none);
	(void)posix_spawnattr_setsigdefault(&at, &all);
	(void)posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK |
						    POSIX_SPAWN_SETSIGDEF);
	r = posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, out_fd, 1);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&fa, out_fd, 2);
	if (!r)
		r = posix_spawn(ret, argv[0], &fa, &at, argv, env);
	(void)posix_spawnattr_destroy(&at);
	(void)posix_spawn_file_actions_destroy(&fa);
	return -r;
}

/* Borrows the words. */
static char **words_to_argv(const struct buf *words)
{
	size_t argc = 0, i = 0;
	char **argv;

	for (size_t at = 0; at < words->len; at++)
		argc += words->data[at] == '\0';
	argv = buf_failed(words) || !argc ? NULL
					  : calloc(argc + 1, sizeof(*argv));
	for (char *p = words->data; argv && i < argc; p += strlen(p) + 1)
		argv[i++] = p;
	return argv;
}

int helper_start(struct helper *h, const struct buf *words)
{
	auto_free char **argv = words_to_argv(words);
	auto_close int in = -1, out = -1;
	int fds[2], r;

	if (!argv)
		return -ENOMEM;
	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	in = fds[0];
	out = fds[1];
	r = spawn_quiet(argv, out, &h->pid);
	if (r < 0)
		return r;
	h->out_fd = take_fd(&in);
	return 0;
}

/* Reads what the helper says until it ends; -ETIMEDOUT. */
static int listen_to(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		char rest[256];
		int r = poll(&p, 1, HELPER_TIMEOUT_MS);

		if (r < 0 && errno == EINTR)
			continue;
		if (r <= 0)
			return r < 0 ? -errno : -ETIMEDOUT;
		n = read(fd, rest, sizeof(rest));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		for (ssize_t i = 0; i < n && len + 1 < size; i++)
			text[len++] = rest[i] == '\n' ? ' ' : rest[i];
	}
	while (len > 0 && text[len - 1] == ' ')
		len--;
	text[len] = '\0';
	return 0;
}

int helper_wait(struct helper *h, char *text, size_t size)
{
	int r = listen_to(h->out_fd, text, size);
	int status;
	pid_t pid;

	if (r < 0)
		return r;
	do {
		pid = waitpid(h->pid, &status, 0);
	} while (pid < 0 && errno == EINTR);
	h->pid = 0;
	if (pid < 0)
		return -errno;
	return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}
