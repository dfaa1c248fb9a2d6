#include "sandbox/askhook.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quiet_thread.h"
#include "kernel/pidfd.h"
#include "supervise/approvals.h"

CLEANUP_PTR(struct json_out, json_out_free);

extern char **environ;

enum { TICK_MS = 100 };

struct askhook {
	struct approvals *book;
	const char *program, *sandbox;
	pthread_t thread;
	int wake_fd; /* our own end of a pipe: closed by stop */
	int stop_fd;
	/* The question that is put, the thread's own. */
	uint64_t id;
	char digest[EVENT_DIGEST_LEN + 1];
	struct buf text;
	bool is_open;
};

static bool take_first(void *data, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	struct askhook *h = data;

	buf_clear(&h->text);
	approval_to_json(i, o);
	if (json_out_end(o, &h->text) < 0)
		return false;
	h->id = i->id;
	(void)snprintf(h->digest, sizeof(h->digest), "%s", i->digest);
	h->is_open = true;
	return false;
}

static bool look_for(void *data, const struct approval_info *i)
{
	struct askhook *h = data;

	h->is_open = h->is_open || i->id == h->id;
	return !h->is_open;
}

/* A file that is there whole: nobody has to write while it is read. */
static int make_input(const struct buf *text)
{
	auto_close int fd = memfd_create("question", MFD_CLOEXEC);

	if (fd < 0 || fd_write_full(fd, text->data, text->len) < 0 ||
	    lseek(fd, 0, SEEK_SET) < 0)
		return -1;
	return take_fd(&fd);
}

static int spawn_program(struct askhook *h, pid_t *ret)
{
	char *argv[] = { (char *)(uintptr_t)h->program,
			 (char *)(uintptr_t)h->sandbox, NULL };
	auto_close int in = make_input(&h->text);
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	if (in < 0)
		return -errno;
	(void)sigemptyset(&none);
	(void)sigfillset(&all);
	(void)posix_spawn_file_actions_init(&files);
	(void)posix_spawnattr_init(&attr);
	r = posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
	/* What it prints is for whoever reads our messages. */
	if (r == 0)
		r = posix_spawn_file_actions_adddup2(&files, STDERR_FILENO,
						     STDOUT_FILENO);
	if (r == 0)
		r = posix_spawnattr_setsigmask(&attr, &none);
	if (r == 0)
		r = posix_spawnattr_setsigdefault(&attr, &all);
	if (r == 0)
		r = posix_spawnattr_setflags(
			&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
	if (r == 0)
		r = posix_spawn(ret, h->program, &files, &attr, argv, environ);
	(void)posix_spawnattr_destroy(&attr);
	(void)posix_spawn_file_actions_destroy(&files);
	return -r;
}

/* Its wait status; killed once nobody waits for an answer any more. */
static int wait_program(struct askhook *h, pid_t pid)
{
	auto_close int pidfd = pidfd_open_pid(pid);
	int status = -1;

	while (pidfd >= 0 && pidfd_wait(pidfd, TICK_MS) == 0) {
		h->is_open = false;
		approvals_each(h->book, 0, false, look_for, h);
		if (!h->is_open)
			break;
	}
	if (pidfd < 0 || pidfd_wait(pidfd, 0) == 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return status;
}

static void put_question(struct askhook *h)
{
	char who[APPROVAL_TEXT_MAX], why[APPROVAL_TEXT_MAX] = "";
	pid_t pid = 0;
	int r = spawn_program(h, &pid);
	int status = r < 0 ? -1 : wait_program(h, pid);
	bool allow = r == 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0;

	(void)snprintf(who, sizeof(who), "program %s", h->program);
	if (r < 0)
		(void)snprintf(why, sizeof(why), "it cannot be run: %s",
			       strerrorname_np(-r));
	else if (WIFSIGNALED(status))
		(void)snprintf(why, sizeof(why), "it died of signal %d",
			       WTERMSIG(status));
	(void)approvals_resolve_by_program(h->book, h->id, h->digest,
					   allow ? 0 : EPERM, who,
					   *why ? why : NULL, NULL);
}

static void *serve(void *data)
{
	struct askhook *h = data;
	struct pollfd p[] = {
		{ .fd = h->wake_fd, .events = POLLIN },
		{ .fd = approvals_fd(h->book), .events = POLLIN },
	};
	uint64_t ticks;

	while (!p[0].revents) {
		if (poll(p, 2, -1) < 0)
			continue;
		if (p[1].revents)
			(void)!read(p[1].fd, &ticks, sizeof(ticks));
		do {
			h->is_open = false;
			approvals_each(h->book, 0, false, take_first, h);
			if (h->is_open)
				put_question(h);
		} while (h->is_open && poll(p, 1, 0) == 0);
	}
	return NULL;
}

struct askhook *askhook_start(struct approvals *book, const char *program,
			      const char *sandbox)
{
	struct askhook *h = calloc(1, sizeof(*h));
	int fds[2];

	if (!h)
		return NULL;
	h->book = book;
	h->program = program;
	h->sandbox = sandbox;
	if (pipe2(fds, O_CLOEXEC) < 0) {
		free(h);
		return NULL;
	}
	h->wake_fd = fds[0];
	h->stop_fd = fds[1];
	if (quiet_thread_make(&h->thread, serve, h) == 0)
		return h;
	(void)close(fds[0]);
	(void)close(fds[1]);
	free(h);
	return NULL;
}

void askhook_stop(struct askhook *h)
{
	if (!h)
		return;
	(void)close(h->stop_fd);
	(void)pthread_join(h->thread, NULL);
	(void)close(h->wake_fd);
	buf_done(&h->text);
	free(h);
}
