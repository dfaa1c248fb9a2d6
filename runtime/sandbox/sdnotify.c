#include "sandbox/sdnotify.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "control/rundir.h"
#include "kernel/pidfd.h"
#include "spec/spec.h"

#define INSIDE "/run/notify"
static const char dir_name[] = "notify";
static const char socket_name[] = "notify.sock";

enum {
	MESSAGE_MAX = 4096,
	BARRIER_MS = 30000, /* as long as runc and libsystemd wait */
};

/* The service manager's socket, or NULL. */
static const char *manager(void)
{
	const char *s = getenv("NOTIFY_SOCKET");

	return s && (*s == '/' || *s == '@') && s[1] ? s : NULL;
}

static int add_mount(struct spec *s, const char *source)
{
	struct spec_mount *v =
		realloc(s->mounts, (s->n_mounts + 1) * sizeof(*v));
	struct spec_mount *m;

	if (!v)
		return -ENOMEM;
	s->mounts = v;
	m = &v[s->n_mounts];
	*m = (struct spec_mount){
		.destination = strdup(INSIDE),
		.source = strdup(source),
		.kind = SPEC_MOUNT_BIND,
		.set = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC,
		.ours = true,
	};
	s->n_mounts++;
	return m->destination && m->source ? 0 : -ENOMEM;
}

int sdnotify_mount(const struct rundir_slot *slot, struct spec *s,
		   struct error *err)
{
	auto_free char *source = NULL;
	int r;

	if (!manager() || !slot || !s->has_process ||
	    s->ns[SPEC_NS_MOUNT].want == SPEC_NS_INHERIT)
		return 0;
	/* Whoever the payload is may look for the socket. */
	if (mkdirat(rundir_slot_fd(slot), dir_name, 0755) < 0 ||
	    fchmodat(rundir_slot_fd(slot), dir_name, 0755, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno, "cannot make '%s/%s'",
				 rundir_slot_path(slot), dir_name);
	if (asprintf(&source, "%s/%s", rundir_slot_path(slot), dir_name) < 0)
		source = NULL;
	r = source ? add_mount(s, source) : -ENOMEM;
	if (r == 0)
		r = spec_strings_add(&s->process.env,
				     "NOTIFY_SOCKET=" INSIDE "/notify.sock");
	return r < 0 ? error_set(err, ERR_SYSTEM, ENOMEM, "NOTIFY_SOCKET") : 0;
}

int sdnotify_bind(const struct rundir_slot *slot, int *ret_fd,
		  struct error *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	auto_close int dir_fd = -1;
	auto_close int fd = -1;
	char dir[FD_PATH_MAX];

	if (!manager() || !slot)
		return 0;
	dir_fd = openat(rundir_slot_fd(slot), dir_name,
			O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir_fd < 0 && errno == ENOENT)
		return 0;
	(void)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s",
		       fd_proc_path(dir_fd, dir), socket_name);
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	/* Whoever the payload is may send. */
	if (dir_fd < 0 || fd < 0 ||
	    bind(fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
	    fchmodat(dir_fd, socket_name, 0777, 0) < 0)
		return error_set(err, ERR_SYSTEM, errno,
				 "cannot make the notify socket of '%s'",
				 rundir_slot_name(slot));
	*ret_fd = take_fd(&fd);
	return 0;
}

/* Connected, or a negative errno. */
static int connect_manager(void)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	const char *path = manager();
	size_t n = path ? strlen(path) : 0;
	auto_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (!n || n >= sizeof(a.sun_path))
		return -EINVAL;
	memcpy(a.sun_path, path, n);
	/* An abstract name has no end but its length. */
	if (*path == '@')
		a.sun_path[0] = '\0';
	if (fd < 0 ||
	    connect(fd, (struct sockaddr *)&a,
		    (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) <
		    0)
		return -errno;
	return take_fd(&fd);
}

/*
 * sd_notify_barrier(3): the manager closes the pipe's end once it has read all
 * that came before. Only then may we, whose messages it knows by our pid, end.
 */
static void wait_barrier(int sock)
{
	static const char text[] = "BARRIER=1";
	struct pollfd p = { .events = 0 };
	int ends[2], r;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return;
	r = fd_send(sock, text, sizeof(text) - 1, &ends[1], 1);
	(void)close(ends[1]);
	p.fd = ends[0];
	if (r == 0)
		(void)poll(&p, 1, BARRIER_MS);
	(void)close(ends[0]);
}

static void tell_manager(const char *line, size_t n, pid_t main_pid)
{
	auto_close int sock = connect_manager();
	char text[48];

	if (sock < 0 || fd_send(sock, line, n, NULL, 0) < 0 || !main_pid)
		return;
	n = (size_t)snprintf(text, sizeof(text), "MAINPID=%d\n", (int)main_pid);
	if (fd_send(sock, text, n, NULL, 0) == 0)
		wait_barrier(sock);
}

/* The line READY= of a message, with its end; NULL: it has none. */
static const char *find_ready(char *message, size_t n, size_t *ret_n)
{
	char *at = message;

	message[n] = '\0';
	while (strncmp(at, "READY=", 6) != 0) {
		at = strchr(at, '\n');
		if (!at)
			return NULL;
		at++;
	}
	*ret_n = strcspn(at, "\n");
	at[(*ret_n)++] = '\n';
	return at;
}

/* True once there is nothing more to wait for. */
static bool take_message(int fd, pid_t main_pid)
{
	char message[MESSAGE_MAX + 1];
	const char *ready;
	size_t n_ready;
	ssize_t n = recv(fd, message, MESSAGE_MAX, 0);

	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	ready = find_ready(message, (size_t)n, &n_ready);
	if (ready)
		tell_manager(ready, n_ready, main_pid);
	return ready;
}

void sdnotify_forward(int fd, int pidfd, pid_t main_pid)
{
	struct pollfd p[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = pidfd, .events = POLLIN },
	};
	bool done = fd < 0;
	bool ended = false;

	while (!done) {
		if (poll(p, ARRAY_LEN(p), ended ? 0 : -1) < 0) {
			if (errno != EINTR)
				return;
			continue;
		}
		/*
		 * What was sent before the end still counts: the socket may
		 * have been looked at before both.
		 */
		if (p[0].revents) {
			done = take_message(fd, main_pid);
		} else {
			done = ended;
			ended = true;
		}
	}
}
