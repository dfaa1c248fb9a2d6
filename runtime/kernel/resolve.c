#include "kernel/resolve.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"

enum { ANSWER_MAX = 64 * 1024, PATIENCE_MS = 30 * 1000 };

extern char **environ;

static char program[] = "getent", database[] = "ahosts",
	    version[] = "--version";

/* getent with its output on @out_fd: 0, or an errno. */
static int start(char *const *argv, int out_fd, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none;
	int r = posix_spawn_file_actions_init(&actions);

	if (r)
		return r;
	r = posix_spawnattr_init(&attr);
	if (r) {
		(void)posix_spawn_file_actions_destroy(&actions);
		return r;
	}
	(void)sigemptyset(&none);
	(void)posix_spawnattr_setsigmask(&attr, &none);
	(void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
	r = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY,
					     0);
	if (!r)
		r = posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	if (!r)
		r = posix_spawn_file_actions_addopen(&actions, 2, "/dev/null",
						     O_WRONLY, 0);
	if (!r)
		r = posix_spawnp(ret, argv[0], &actions, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&actions);
	return r;
}

/* What it prints: -ETIMEDOUT, -E2BIG. */
static int read_answer(int fd, struct buf *ret)
{
	int64_t end_ms = clock_now_ms() + PATIENCE_MS;
	char room[4096];

	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end_ms - clock_now_ms();
		ssize_t n;

		if (left <= 0)
			return -ETIMEDOUT;
		if (poll(&p, 1, (int)left) <= 0)
			continue;
		n = read(fd, room, sizeof(room));
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		buf_add(ret, room, (size_t)n);
		if (ret->len > ANSWER_MAX)
			return -E2BIG;
	}
}

static int ask(char *const *argv, struct buf *ret)
{
	auto_close int read_fd = -1, write_fd = -1;
	int fds[2], r;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -errno;
	read_fd = fds[0];
	write_fd = fds[1];
	r = start(argv, write_fd, &pid);
	if (r)
		return -r;
	cleanup_close(&write_fd);
	write_fd = -1;
	r = read_answer(read_fd, ret);
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	return r;
}

static void add_address(const char *text, struct net_ip *v, size_t *n)
{
	bool is_v6 = strchr(text, ':');
	uint8_t bytes[16];
	struct net_ip ip;

	if (inet_pton(is_v6 ? AF_INET6 : AF_INET, text, bytes) != 1)
		return;
	ip = net_ip_make(bytes, is_v6 ? 16 : 4);
	for (size_t i = 0; i < *n; i++)
		if (memcmp(&v[i], &ip, sizeof(ip)) == 0)
			return;
	if (*n < RESOLVE_MAX)
		v[(*n)++] = ip;
}

/* "192.0.2.1       STREAM example.org", one a line. */
static void parse(char *text, struct net_ip *v, size_t *n)
{
	char *save = NULL;

	for (char *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save)) {
		/* A link-local address has its interface behind it. */
		line[strcspn(line, " \t%")] = '\0';
		add_address(line, v, n);
	}
}

int resolve_host(const char *name, struct net_ip ret[RESOLVE_MAX],
		 size_t *ret_n, struct error *err)
{
	char *const argv[] = { program, database, (char *)name, NULL };
	auto_(buf) struct buf text = BUF_INIT;
	int r = 0;

	*ret_n = 0;
	if (strcmp(name, "localhost") == 0)
		buf_add_str(&text, "127.0.0.1\n::1\n");
	else
		r = ask(argv, &text);
	if (r == -ENOENT)
		return error_say(err, ERR_SYSTEM, ENOENT,
				 "getent is not installed: it resolves '%s'",
				 name);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot resolve '%s'",
				 name);
	if (text.len)
		parse(text.data, ret, ret_n);
	if (*ret_n)
		return 0;
	(void)error_say(err, ERR_USAGE, ENOENT, "'%s' does not resolve", name);
	return error_hint(err, "try: getent ahosts %s", name);
}

int resolve_check(void)
{
	char *const argv[] = { program, version, NULL };
	auto_(buf) struct buf text = BUF_INIT;

	return ask(argv, &text);
}
