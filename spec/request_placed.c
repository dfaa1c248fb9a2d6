/* A request as it would have to be made in any other directory. */
#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "spec/request.h"

struct placing {
	const struct request *from;
	struct request *to;
	const char *cwd;
};

/* What is in a chroot is never relative to where we are. */
static bool is_placed(const struct placing *p, const struct request_key *k)
{
	return k && k->flags & REQUEST_PATH &&
	       (!p->from->chroot || k->flags & REQUEST_OUTSIDE) &&
	       /* A name stands for any program that is called so. */
	       strncmp(k->key, "ask.", 4) != 0;
}

static void add_path(const struct placing *p, const char *path, struct buf *ret)
{
	if (*path == '/') {
		buf_add_str(ret, path);
		return;
	}
	while (strncmp(path, "./", 2) == 0)
		path += 2;
	buf_add_str(ret, p->cwd);
	if (*path && strcmp(path, ".") != 0)
		buf_printf(ret, "%s%s", strcmp(p->cwd, "/") != 0 ? "/" : "",
			   path);
}

static int copy(void *data, const char *key, const char *value)
{
	const struct placing *p = data;
	const struct request_key *k = request_find_key(key);
	auto_(buf) struct buf b = BUF_INIT;
	/* "INSIDE:HOST", and INSIDE is absolute. */
	const char *path =
		k && k->kind == REQUEST_MOUNTS ? strchr(value, ':') + 1 : value;

	if (!is_placed(p, k))
		return request_set(p->to, key, value, key, NULL);
	buf_add(&b, value, (size_t)(path - value));
	add_path(p, path, &b);
	return buf_failed(&b) ? -ENOMEM
			      : request_set(p->to, key, buf_str(&b), key, NULL);
}

int request_place(const struct request *r, const char *cwd,
		  struct request **ret)
{
	auto_ptr(request_free) struct request *to = request_new();
	struct placing p = { .from = r, .to = to, .cwd = cwd };
	int n = to ? request_each(r, copy, &p) : -ENOMEM;

	if (n == 0 && !r->bundle && !r->chroot && !r->no_branch &&
	    !r->workdirs.n)
		n = request_set(to, "config.workdir", cwd, "workdir", NULL);
	if (n == 0)
		*ret = take_ptr(&to);
	return n;
}
