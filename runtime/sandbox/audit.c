#include "sandbox/audit.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/log.h"
#include "base/path.h"
#include "sandbox/create.h"

CLEANUP_PTR(struct json_out, json_out_free);

static const char audit_name[] = "approvals.jsonl";

struct audit {
	char *sandbox;
	int fd;
	const struct log_sink *log;
	pthread_mutex_t lock; /* of what follows */
	struct buf lines;     /* to be written */
	bool is_lazy;
};

enum { LAZY_MAX = 32 * 1024 };

/* One write appends whole lines, whoever else appends. With the lock held. */
static void write_lines(struct audit *a)
{
	int r = buf_failed(&a->lines) ? -ENOMEM : 0;

	if (r == 0 && a->lines.len)
		r = fd_write_full(a->fd, a->lines.data, a->lines.len);
	if (r < 0)
		log_warn(a->log, "cannot write to the audit log: errno %d", -r);
	buf_clear(&a->lines);
}

void audit_flush(struct audit *a)
{
	(void)pthread_mutex_lock(&a->lock);
	write_lines(a);
	(void)pthread_mutex_unlock(&a->lock);
}

void audit_set_lazy(struct audit *a)
{
	(void)pthread_mutex_lock(&a->lock);
	a->is_lazy = true;
	(void)pthread_mutex_unlock(&a->lock);
}

void audit_close(struct audit *a)
{
	if (!a)
		return;
	audit_flush(a);
	buf_done(&a->lines);
	(void)pthread_mutex_destroy(&a->lock);
	cleanup_close(&a->fd);
	free(a->sandbox);
	free(a);
}
CLEANUP_PTR(struct audit, audit_close);

/* Without a branch there may be no store yet. */
static int open_log(const char *dir, const char *path)
{
	int flags = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC;
	int fd = open(path, flags, 0600);

	if (fd < 0 && errno == ENOENT && mkdir(dir, 0700) == 0)
		fd = open(path, flags, 0600);
	return fd;
}

int audit_open(const struct create *c, struct audit **ret, struct error *err)
{
	auto_ptr(audit_close) struct audit *a = NULL;
	struct audit *empty = calloc(1, sizeof(*a));
	auto_free char *path = NULL;

	if (!empty || pthread_mutex_init(&empty->lock, NULL)) {
		free(empty);
		return error_set(err, ERR_SYSTEM, ENOMEM, "audit log");
	}
	a = empty;
	a->fd = -1;
	a->log = c->env->log;
	a->sandbox = strdup(c->plan->name);
	path = c->store ? path_join(store_path(c->store), audit_name) : NULL;
	if (!a->sandbox || (c->store && !path))
		return error_set(err, ERR_SYSTEM, ENOMEM, "audit log");
	if (path)
		a->fd = open_log(store_path(c->store), path);
	if (a->fd < 0)
		log_warn(a->log, "nothing is kept of who answers: no '%s'",
			 path ? path : audit_name);
	*ret = take_ptr(&a);
	return 0;
}

void audit_told(void *data, const struct approval_info *i)
{
	auto_ptr(json_out_free) struct json_out *o = NULL;
	struct audit *a = data;

	if (i->state == APPROVAL_WAITING || a->fd < 0)
		return;
	o = json_out_new(false);
	json_out_object(o);
	json_out_str_member(o, "sandbox", a->sandbox);
	json_out_key(o, "approval");
	approval_to_json(i, o);
	json_out_object_end(o);
	(void)pthread_mutex_lock(&a->lock);
	if (json_out_end(o, &a->lines) < 0)
		a->lines.failed = true;
	if (!a->is_lazy || a->lines.failed || a->lines.len >= LAZY_MAX)
		write_lines(a);
	(void)pthread_mutex_unlock(&a->lock);
}
