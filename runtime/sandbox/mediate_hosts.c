/*
 * Tier C: the hosts file with the addresses that names of rules are pinned to.
 * Nothing can be mounted on /etc/hosts, so whoever opens it by that name gets a
 * file in memory. It is for being found only: what may be reached is judged by
 * addresses, and who reads the host's file by another name gains nothing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/error.h"
#include "base/fd.h"
#include "policy/syscalls.h"
#include "sandbox/create.h"
#include "sandbox/host.h"
#include "sandbox/mediate.h"
#include "supervise/open.h"

static const char path[] = "/etc/hosts";

struct hosts {
	int fd;
};

static unsigned int traps(const struct host_context *h)
{
	return h->notify && h->hosts ? TRAP_OPEN : 0;
}

static void free_hosts(void *p)
{
	struct hosts *h = p;

	cleanup_close(&h->fd);
	free(h);
}

static bool is_wanted(struct call *c, struct open_how *how)
{
	char text[sizeof(path)];
	unsigned int arg;
	int dirfd;

	return open_call_read(c, &dirfd, how, &arg) == 0 &&
	       !open_is_write(how) &&
	       !(how->flags & (O_PATH | O_DIRECTORY | O_CREAT)) &&
	       call_read_string(c, call_arg(c, arg), text, sizeof(text)) == 0 &&
	       strcmp(text, path) == 0;
}

static struct outcome answer(struct call *c, void *data)
{
	const struct hosts *h = data;
	struct open_how how = { 0 };
	int fd;

	if (!is_wanted(c, &how))
		return OUTCOME_GO;
	/* Each has a position of its own. */
	fd = fd_reopen(h->fd, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? OUTCOME_FAIL(-fd)
		      : OUTCOME_OPEN(fd, how.flags & O_CLOEXEC);
}

static int make_file(const char *text, struct error *err)
{
	auto_close int fd =
		memfd_create("hosts", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	int r = fd < 0 ? -errno : fd_write_full(fd, text, strlen(text));

	if (r == 0 && (fchmod(fd, 0444) < 0 ||
		       fcntl(fd, F_ADD_SEALS,
			     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW |
				     F_SEAL_WRITE) < 0))
		r = -errno;
	return r < 0 ? error_set(err, ERR_SYSTEM, -r,
				 "cannot make a file for /etc/hosts")
		     : take_fd(&fd);
}

static int add_rows(struct mediation *m, struct hosts *h, struct error *err)
{
	/* clang-format off */
	static const struct { const char *name; int nr; } calls[] = {
#ifdef SYS_open
		{ "open",    SYS_open },
		{ "creat",   SYS_creat },
#endif
		{ "openat",  SYS_openat },
		{ "openat2", SYS_openat2 },
	};
	/* clang-format on */
	int r = 0;

	for (size_t i = 0; r == 0 && i < ARRAY_LEN(calls); i++) {
		const struct handler row = { .name = calls[i].name,
					     .nr = calls[i].nr,
					     .lane = LANE_LOCAL,
					     .fn = answer,
					     .data = h };

		r = mediation_add_row(m, &row, err);
	}
	return r;
}

static int begin(struct mediation *m, struct error *err)
{
	const struct create *c = mediation_create(m);
	struct hosts *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return error_set(err, ERR_SYSTEM, ENOMEM, "handlers");
	h->fd = -1;
	r = mediation_own(m, h, free_hosts, err);
	if (r < 0)
		return r;
	h->fd = make_file(c->plan->hosts, err);
	return h->fd < 0 ? error_code(err) : add_rows(m, h, err);
}

const struct mediate_feature mediate_hosts = {
	.flag = "a network rule with a name",
	.traps = traps,
	.begin = begin,
};
