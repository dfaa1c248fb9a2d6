#include "embed/report.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/limits.h"
#include "branch/branch.h"
#include "branch/change.h"

struct packed_side {
	uint32_t kind, mode;
	uint64_t size;
	uint8_t has_digest, has_target;
	unsigned char digest[CHANGE_DIGEST];
};

/* Followed by the path and the targets, each with its NUL. */
struct packed {
	uint32_t len; /* of all of it */
	uint32_t flags;
	uint32_t root; /* number */
	char letter;
	struct packed_side before, after;
};

_Static_assert(CHANGE_DIGEST == sizeof(((struct sandlock_entry *)0)->digest),
	       "digests differ");

static enum sandlock_entry_kind kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFREG:
		return SANDLOCK_ENTRY_FILE;
	case S_IFDIR:
		return SANDLOCK_ENTRY_DIRECTORY;
	case S_IFLNK:
		return SANDLOCK_ENTRY_SYMLINK;
	case S_IFIFO:
		return SANDLOCK_ENTRY_FIFO;
	case S_IFSOCK:
		return SANDLOCK_ENTRY_SOCKET;
	case S_IFCHR:
		return SANDLOCK_ENTRY_CHAR_DEVICE;
	case S_IFBLK:
		return SANDLOCK_ENTRY_BLOCK_DEVICE;
	}
	return SANDLOCK_ENTRY_NONE;
}

static struct packed_side pack_side(const struct change_side *s)
{
	return (struct packed_side){
		.kind = kind_of(s->mode),
		.mode = s->mode & ~(mode_t)S_IFMT,
		.size = s->size,
		.has_target = s->link_target != NULL,
	};
}

/* Most branches have one, and say so by saying nothing. */
static size_t root_of(const struct branch *b, const struct change *c)
{
	for (size_t i = 0; c->root && i < branch_n_roots(b); i++)
		if (strcmp(branch_lower(branch_root((struct branch *)b, i)),
			   c->root) == 0)
			return i;
	return 0;
}

struct collecting {
	struct branch *branch;
	struct buf *records;
	struct error *err;
};

/* What cannot be read has no digest. */
static void add_digest(struct branch *b, const char *path,
		       enum change_content side, struct packed_side *s)
{
	if (s->kind == SANDLOCK_ENTRY_FILE)
		s->has_digest = branch_digest_bytes(b, path, side, s->digest,
						    NULL) == 0;
}

static void add_digests(struct branch *b, const struct change *c,
			struct packed *p)
{
	bool same = c->flags & CHANGE_CONTENT_SAME;

	add_digest(b, c->path, CONTENT_AFTER, &p->after);
	if (same && p->after.has_digest &&
	    p->before.kind == SANDLOCK_ENTRY_FILE) {
		memcpy(p->before.digest, p->after.digest, CHANGE_DIGEST);
		p->before.has_digest = true;
	} else {
		add_digest(b, c->path, CONTENT_BEFORE, &p->before);
	}
}

static size_t text_len(const char *s)
{
	return s ? strlen(s) + 1 : 0;
}

static int add_record(void *data, const struct change *c)
{
	struct collecting *x = data;
	const char *from = c->before.link_target, *to = c->after.link_target;
	size_t len = sizeof(struct packed) + text_len(c->path) +
		     text_len(from) + text_len(to);
	struct packed p = {
		.len = (uint32_t)len,
		.flags = c->flags,
		.root = (uint32_t)root_of(x->branch, c),
		.letter = change_letter(c->kind),
		.before = pack_side(&c->before),
		.after = pack_side(&c->after),
	};

	if (len > CHANNEL_DATA_MAX ||
	    x->records->len + len > LIMIT_REPORT_BYTES)
		return error_say(x->err, ERR_UNSUPPORTED, E2BIG,
				 "there are more changes than can be "
				 "reported; the branch has them all");
	add_digests(branch_root(x->branch, p.root), c, &p);
	buf_add(x->records, &p, sizeof(p));
	buf_add(x->records, c->path, text_len(c->path));
	buf_add(x->records, from ? from : "", text_len(from));
	buf_add(x->records, to ? to : "", text_len(to));
	return buf_failed(x->records)
		       ? error_set(x->err, ERR_SYSTEM, ENOMEM, "changes")
		       : 0;
}

int report_collect(struct branch *b, struct buf *records, struct error *err)
{
	struct collecting x = { b, records, err };

	return branch_changes(b, CHANGE_WANT_UNCHANGED | CHANGE_WANT_CHILDREN,
			      NULL, 0, add_record, &x, err);
}

static uint32_t record_len(const char *data)
{
	uint32_t len;

	memcpy(&len, data, sizeof(len));
	return len;
}

int report_send(int sock, const struct buf *records)
{
	size_t from = 0, at = 0;
	int r = 0;

	while (r == 0 && at < records->len) {
		uint32_t len = record_len(records->data + at);

		if (at + len - from > CHANNEL_DATA_MAX) {
			r = channel_send(sock, CHANNEL_CHANGES, 0,
					 records->data + from, at - from, -1);
			from = at;
		}
		at += len;
	}
	if (r == 0 && at > from)
		r = channel_send(sock, CHANNEL_CHANGES, 0, records->data + from,
				 at - from, -1);
	return r;
}

/* The next string of a record, which ends with a NUL; NULL: none is left. */
static const char *next_text(const char **at, const char *end)
{
	const char *s = *at;

	if (s >= end)
		return NULL;
	*at += strlen(s) + 1;
	return s;
}

static int copy_text(const char *text, char **ret)
{
	if (!text)
		return -EPROTO;
	*ret = strdup(text);
	return *ret ? 0 : -ENOMEM;
}

static int unpack_side(struct sandlock_entry *to, const struct packed_side *s,
		       const char **text, const char *end)
{
	*to = (struct sandlock_entry){
		.kind = (enum sandlock_entry_kind)s->kind,
		.mode = s->mode,
		.size = s->size,
		.has_digest = s->has_digest,
	};
	memcpy(to->digest, s->digest, sizeof(to->digest));
	return s->has_target ? copy_text(next_text(text, end), &to->target) : 0;
}

static int unpack(struct sandlock_changed *to, const struct root *roots,
		  size_t n_roots, const char *data)
{
	const char *text = data + sizeof(struct packed);
	const char *end = data + record_len(data);
	struct packed p;
	int r;

	memcpy(&p, data, sizeof(p));
	if (p.root >= n_roots)
		return -EPROTO;
	*to = (struct sandlock_changed){
		.letter = p.letter,
		.flags = p.flags,
		.root = roots[p.root].lower,
	};
	r = copy_text(next_text(&text, end), &to->path);
	if (r == 0)
		r = unpack_side(&to->before, &p.before, &text, end);
	return r == 0 ? unpack_side(&to->after, &p.after, &text, end) : r;
}

static int count_records(const char *data, size_t len, size_t *ret)
{
	size_t n = 0, at = 0;

	while (at < len) {
		uint32_t one;

		if (len - at < sizeof(struct packed))
			return -EPROTO;
		one = record_len(data + at);
		if (one <= sizeof(struct packed) || one > len - at ||
		    data[at + one - 1] != '\0')
			return -EPROTO;
		at += one;
		n++;
	}
	*ret = n;
	return 0;
}

int report_add(struct sandlock_report *r, const struct root *roots,
	       size_t n_roots, const char *data, size_t len)
{
	struct sandlock_changed *v;
	size_t n;
	int e = count_records(data, len, &n);

	/* realloc of nothing would free what is there. */
	if (e < 0 || n == 0)
		return e;
	v = realloc(r->changes, (r->n_changes + n) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	r->changes = v;
	for (size_t at = 0; at < len; at += record_len(data + at)) {
		v[r->n_changes] = (struct sandlock_changed){ .flags = 0 };
		e = unpack(&v[r->n_changes++], roots, n_roots, data + at);
		if (e < 0)
			return e;
	}
	return 0;
}

void report_clear(struct sandlock_report *r)
{
	for (size_t i = 0; i < r->n_changes; i++) {
		free(r->changes[i].path);
		free(r->changes[i].before.target);
		free(r->changes[i].after.target);
	}
	free(r->changes);
	free(r->out_data);
	free(r->err_data);
	*r = (struct sandlock_report){ .n_changes = 0 };
}
