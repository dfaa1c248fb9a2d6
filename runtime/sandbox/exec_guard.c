/* exec into a sandbox of tier C, whose guard clones: sandbox/guard.h. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "sandbox/exec.h"
#include "sandbox/guard.h"
#include "spec/spec.h"

static bool wants_file(const struct sandbox_exec *x)
{
	return x->process_file;
}

static bool wants_labels(const struct sandbox_exec *x)
{
	return x->apparmor || x->process_label;
}

static bool wants_groups(const struct sandbox_exec *x)
{
	return x->n_additional_gids;
}

static bool wants_cgroups(const struct sandbox_exec *x)
{
	return x->cgroups && x->cgroups[0];
}

static bool wants_fds(const struct sandbox_exec *x)
{
	return x->preserve_fds;
}

static bool wants_console(const struct sandbox_exec *x)
{
	return x->console_socket;
}

/* clang-format off */
static const struct {
	bool (*wants)(const struct sandbox_exec *x);
	const char *what;
} refusals[] = {
	{ wants_file, "--process" },
	{ wants_labels, "--apparmor or --process-label" },
	{ wants_groups, "--additional-gids" },
	{ wants_cgroups, "--cgroup" },
	{ wants_fds, "--preserve-fds" },
	{ wants_console, "--console-socket" },
};
/* clang-format on */

int exec_guard_check(const struct sandbox_exec *x, struct error *err)
{
	for (size_t i = 0; i < ARRAY_LEN(refusals); i++)
		if (refusals[i].wants(x))
			return error_say(err, ERR_UNSUPPORTED, ENOTSUP,
					 "%s cannot be had in a sandbox "
					 "without namespaces",
					 refusals[i].what);
	return 0;
}

static void add(struct buf *b, const char *key, const char *value)
{
	buf_add(b, key, strlen(key) + 1);
	buf_add(b, value, strlen(value) + 1);
}

static void add_list(struct buf *b, const char *key, const char *const *v)
{
	for (; v && *v; v++)
		add(b, key, *v);
}

static int write_words(const struct exec *e, int *ret_fd)
{
	const struct sandbox_exec *x = e->request;
	auto_(buf) struct buf b = BUF_INIT;
	auto_close int fd = memfd_create("exec", MFD_CLOEXEC);

	if (fd < 0)
		return -errno;
	add_list(&b, "arg", x->args);
	add_list(&b, "env", x->env);
	add_list(&b, "cap", x->caps);
	if (x->cwd)
		add(&b, "cwd", x->cwd);
	if (x->user)
		add(&b, "user", x->user);
	if (e->process->terminal)
		add(&b, "terminal", "1");
	if (buf_failed(&b))
		return -ENOMEM;
	if (fd_write_full(fd, b.data, b.len) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* The first message waits in the socket until the guard has it. */
static int send_request(struct exec *e, int status_fd)
{
	const struct join_request q = {
		.magic = JOIN_MAGIC,
		.version = JOIN_VERSION,
		.is_detached = e->request->detach,
	};
	auto_close int words_fd = -1;
	int r = write_words(e, &words_fd);
	const int fds[JOIN_FDS] = {
		[JOIN_STATUS] = status_fd,
		[JOIN_WORDS] = words_fd,
		[JOIN_IN] = 0,
		[JOIN_OUT] = 1,
		[JOIN_ERR] = 2,
	};

	return r == 0 ? fd_send(e->sync_fd, &q, sizeof(q), fds, JOIN_FDS) : r;
}

int exec_guard_begin(struct exec *e, struct error *err)
{
	auto_close int status_fd = -1;
	int pair[2], r;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	e->sync_fd = pair[0];
	e->child_sync_fd = pair[1];
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make a socket pair");
	e->status_fd = pair[0];
	status_fd = pair[1];
	r = send_request(e, status_fd);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot say what is to be executed");
	r = exec_ask(e, "join", NULL, &e->child_sync_fd, err);
	if (r == 0)
		r = exec_ask_end(e, err);
	cleanup_close(&e->child_sync_fd);
	e->child_sync_fd = -1;
	return r;
}

void exec_guard_status(struct exec *e, struct exit_status *ret)
{
	int status = 0;
	ssize_t n;

	do
		n = recv(e->status_fd, &status, sizeof(status), 0);
	while (n < 0 && errno == EINTR);
	/* Without a word it ended with all of the sandbox. */
	*ret = n == sizeof(status)
		       ? exit_status_from_wait(status)
		       : (struct exit_status){ EXIT_SIGNAL, SIGKILL };
}
