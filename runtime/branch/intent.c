/*
 * The intent file: a plan as it is in memory, between a header and a SHA-256
 * of everything before it. It appears by a rename after an fsync, so one that
 * does not match its digest was damaged later: it is refused as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <sha2.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "branch/plan.h"

static const char magic[8] = { 's', 'a', 'n', 'd', 'l', 'k', '0', '1' };

struct intent_head {
	char magic[sizeof(magic)];
	uint32_t op_size, dir_size; /* another layout is another version */
	uint64_t n_ops, n_dirs, text_len;
	uint8_t partial, staged;
	uint8_t padding[6];
};

enum { INTENT_MAX_ENTRIES = 100 * 1000 * 1000 };

static int write_part(int fd, SHA2_CTX *sha, const void *data, size_t n)
{
	if (n == 0)
		return 0;
	SHA256Update(sha, data, n);
	return fd_write_full(fd, data, n);
}

static int write_plan(int fd, const struct plan *p)
{
	struct intent_head head = { .op_size = sizeof(*p->ops),
				    .dir_size = sizeof(*p->dirs),
				    .n_ops = p->n_ops,
				    .n_dirs = p->n_dirs,
				    .text_len = p->text.len,
				    .partial = p->partial,
				    .staged = p->staged };
	uint8_t digest[SHA256_DIGEST_LENGTH];
	SHA2_CTX sha;
	int r;

	memcpy(head.magic, magic, sizeof(magic));
	SHA256Init(&sha);
	r = write_part(fd, &sha, &head, sizeof(head));
	if (r == 0)
		r = write_part(fd, &sha, p->ops, p->n_ops * sizeof(*p->ops));
	if (r == 0)
		r = write_part(fd, &sha, p->dirs, p->n_dirs * sizeof(*p->dirs));
	if (r == 0)
		r = write_part(fd, &sha, p->text.data, p->text.len);
	SHA256Final(digest, &sha);
	return r < 0 ? r : fd_write_full(fd, digest, sizeof(digest));
}

int intent_write(const struct plan *p, int dir_fd, const char *name,
		 struct error *err)
{
	auto_close int fd = openat(
		dir_fd, "intent.tmp",
		O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = fd < 0 ? -errno : write_plan(fd, p);

	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	if (r == 0 && renameat(dir_fd, "intent.tmp", dir_fd, name) < 0)
		r = -errno;
	if (r < 0) {
		(void)unlinkat(dir_fd, "intent.tmp", 0);
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot write down what to commit");
	}
	if (fsync(dir_fd) == 0)
		return 0;
	r = error_set(err, ERR_SYSTEM, errno,
		      "cannot write down what to commit");
	/* It would be carried out by whoever comes next. */
	(void)unlinkat(dir_fd, name, 0);
	(void)fsync(dir_fd);
	return r;
}

static int read_part(int fd, SHA2_CTX *sha, void *data, size_t n)
{
	ssize_t got = fd_read_full(fd, data, n);

	if (got < 0)
		return (int)got;
	if ((size_t)got != n)
		return -EBADMSG;
	SHA256Update(sha, data, n);
	return 0;
}

static int read_array(int fd, SHA2_CTX *sha, uint64_t n, size_t size, void *ret)
{
	void *data;
	int r;

	data = calloc((size_t)n + 1, size);
	if (!data)
		return -ENOMEM;
	r = read_part(fd, sha, data, (size_t)n * size);
	*(void **)ret = data;
	return r;
}

/* Before memory is taken for what it says it has. */
static bool has_size(int fd, const struct intent_head *h)
{
	struct stat st;

	if (h->n_ops > INTENT_MAX_ENTRIES || h->n_dirs > INTENT_MAX_ENTRIES ||
	    h->text_len >= PLAN_NONE || fstat(fd, &st) < 0)
		return false;
	return (uint64_t)st.st_size ==
	       sizeof(*h) + h->n_ops * sizeof(struct plan_op) +
		       h->n_dirs * sizeof(struct plan_dir) + h->text_len +
		       SHA256_DIGEST_LENGTH;
}

static int read_text(int fd, SHA2_CTX *sha, uint64_t len, struct buf *text)
{
	uint64_t left = len;
	char chunk[4096];

	while (left > 0) {
		size_t n = left < sizeof(chunk) ? (size_t)left : sizeof(chunk);
		int r = read_part(fd, sha, chunk, n);

		if (r < 0)
			return r;
		buf_add(text, chunk, n);
		left -= n;
	}
	return buf_failed(text) ? -ENOMEM : 0;
}

static bool is_name(const struct plan *p, uint32_t offset, bool may_be_empty)
{
	const char *s;

	if (offset >= p->text.len)
		return false;
	s = plan_text(p, offset); /* the text ends with a NUL that is not its */
	return (may_be_empty || s[0]) && !strchr(s, '/') &&
	       strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
}

/* What follows relies on indices and names: none may lead elsewhere. */
static bool is_consistent(const struct plan *p)
{
	if (p->n_dirs == 0)
		return p->n_ops == 0;
	for (size_t i = 0; i < p->n_dirs; i++) {
		const struct plan_dir *d = &p->dirs[i];

		if (i == 0 ? d->parent != PLAN_NONE : d->parent >= i)
			return false;
		if (!is_name(p, d->name, i == 0))
			return false;
	}
	for (size_t i = 0; i < p->n_ops; i++) {
		const struct plan_op *op = &p->ops[i];

		if (op->dir >= p->n_dirs || !is_name(p, op->name, false) ||
		    op->kind > OP_CLEAN)
			return false;
		if ((op->flags & OP_MKDIR) && op->strip >= p->n_dirs)
			return false;
	}
	return true;
}

static int read_plan(int fd, struct plan *p)
{
	uint8_t digest[SHA256_DIGEST_LENGTH], stored[SHA256_DIGEST_LENGTH];
	struct intent_head head;
	SHA2_CTX sha;
	int r;

	SHA256Init(&sha);
	r = read_part(fd, &sha, &head, sizeof(head));
	if (r < 0)
		return r;
	if (memcmp(head.magic, magic, sizeof(magic)) != 0)
		return -EBADMSG;
	if (head.op_size != sizeof(*p->ops) ||
	    head.dir_size != sizeof(*p->dirs))
		return -EPROTO;
	if (!has_size(fd, &head))
		return -EBADMSG;
	r = read_array(fd, &sha, head.n_ops, sizeof(*p->ops), &p->ops);
	if (r == 0)
		r = read_array(fd, &sha, head.n_dirs, sizeof(*p->dirs),
			       &p->dirs);
	if (r == 0)
		r = read_text(fd, &sha, head.text_len, &p->text);
	if (r < 0)
		return r;
	if (fd_read_full(fd, stored, sizeof(stored)) != sizeof(stored))
		return -EBADMSG;
	SHA256Final(digest, &sha);
	if (memcmp(digest, stored, sizeof(digest)) != 0)
		return -EBADMSG;
	p->n_ops = p->cap_ops = (size_t)head.n_ops;
	p->n_dirs = p->cap_dirs = (size_t)head.n_dirs;
	p->partial = head.partial;
	p->staged = head.staged;
	return is_consistent(p) ? 0 : -EBADMSG;
}

int intent_read(struct plan *p, int dir_fd, struct error *err)
{
	auto_close int fd =
		openat(dir_fd, "intent", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	auto_(plan) struct plan out = { .n_ops = 0 };
	int r;

	if (fd < 0 && errno == ENOENT)
		return -ENOENT;
	r = fd < 0 ? -errno : read_plan(fd, &out);
	if (r == -EPROTO) {
		(void)error_say(err, ERR_TORN, EPROTO,
				"the record of the interrupted commit is not "
				"one of this version");
		return error_hint(err, "nothing was touched; 'recover' of the "
				       "version that was killed goes on");
	}
	if (r == -EBADMSG) {
		(void)error_say(err, ERR_TORN, EBADMSG,
				"the record of the interrupted commit is "
				"damaged");
		return error_hint(err, "nothing was touched; compare the "
				       "branch's upper and trash by hand");
	}
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r, "cannot read 'intent'");
	*p = out;
	out = (struct plan){ .n_ops = 0 };
	return 0;
}
