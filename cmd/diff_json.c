#include "base/utc.h"
#include "diff.h"

#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>

/* clang-format off */
static const struct {
	char letter;
	const char *word;
} kinds[] = {
	{ 'A', "added" }, { 'M', "modified" }, { 'm', "metadata" },
	{ 'D', "deleted" }, { 'T', "type" },
};

static const struct {
	unsigned int flag;
	const char *word;
} flags[] = {
	{ SANDLOCK_CHANGE_CONTENT_SAME, "content_unchanged" },
	{ SANDLOCK_CHANGE_MTIME_ONLY, "mtime_only" },
	{ SANDLOCK_CHANGE_OPAQUE, "opaque" },
	{ SANDLOCK_CHANGE_LINK_BROKEN, "link_broken" },
	{ SANDLOCK_CHANGE_SETID, "setid" },
	{ SANDLOCK_CHANGE_SPECIAL, "special" },
	{ SANDLOCK_CHANGE_ABSENT, "already_absent" },
	{ SANDLOCK_CHANGE_IMPLIED, "implied" },
	{ SANDLOCK_CHANGE_STALE_LOCK, "stale_lock" },
};
/* clang-format on */

static const char *kind_word(char letter)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (kinds[i].letter == letter)
			return kinds[i].word;
	return "unknown";
}

static int add_side(struct diff *d, struct json_out *o,
		    const struct sandlock_change *c, bool after)
{
	const struct sandlock_side *s = after ? &c->after : &c->before;
	auto_(buf) struct buf path = BUF_INIT;
	char text[65];
	int r;

	json_out_key(o, after ? "after" : "before");
	if (!s->mode) {
		json_out_null(o);
		return 0;
	}
	json_out_object(o);
	json_out_str_member(o, "kind", diff_kind(s->mode));
	(void)snprintf(text, sizeof(text), "%04o", s->mode & 07777);
	json_out_str_member(o, "mode", text);
	json_out_key(o, "owner");
	json_out_object(o);
	json_out_uint_member(o, "uid", s->uid);
	json_out_uint_member(o, "gid", s->gid);
	json_out_object_end(o);
	if (S_ISREG(s->mode))
		json_out_uint_member(o, "size", s->size);
	if (S_ISLNK(s->mode) && s->link_target)
		json_out_bytes_member(o, "target", s->link_target);
	if (S_ISCHR(s->mode) || S_ISBLK(s->mode)) {
		(void)snprintf(text, sizeof(text), "%u:%u", major(s->rdev),
			       minor(s->rdev));
		json_out_str_member(o, "device", text);
	}
	utc_member(o, "mtime", &s->mtime, 9);
	if (d->digest && S_ISREG(s->mode)) {
		change_path(&path, c);
		if (buf_failed(&path))
			return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM,
					 "out of memory");
		r = sandlock_digest(&d->ctx->env, d->name, buf_str(&path),
				    after, text, d->err);
		if (r < 0)
			return r;
		json_out_str_member(o, "sha256", text);
	}
	json_out_object_end(o);
	return 0;
}

static void add_flags(struct json_out *o, const struct sandlock_change *c)
{
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		if (c->flags & flags[i].flag)
			json_out_bool_member(o, flags[i].word, true);
	if (c->flags & SANDLOCK_CHANGE_CONFLICT) {
		json_out_key(o, "conflict");
		print_json_str_or_null(o, c->conflict);
	}
	if (c->link_to)
		json_out_bytes_member(o, "link_to", c->link_to);
	if (c->xattrs)
		json_out_str_member(o, "xattrs", c->xattrs);
}

/* The name has been found, so it has no character that JSON would escape. */
static void print_head(const struct diff *d)
{
	printf("{\"schema\":\"sandlock.diff/1\",\"name\":\"%s\",\"changes\":[",
	       d->name);
}

/* One record a line, so that neither side has to hold them all. */
int diff_json(void *data, const struct sandlock_change *c)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf text = BUF_INIT;
	char letter[2] = { c->letter, 0 };
	struct diff *d = data;
	int r;

	if (!o)
		return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	json_out_object(o);
	json_out_str_member(o, "letter", letter);
	json_out_str_member(o, "kind", kind_word(c->letter));
	json_out_bytes_member(o, "path", c->path);
	if (c->root)
		json_out_bytes_member(o, "root", c->root);
	r = add_side(d, o, c, false);
	if (!r)
		r = add_side(d, o, c, true);
	if (r < 0)
		return r;
	add_flags(o, c);
	json_out_object_end(o);
	if (json_out_end(o, &text) < 0 || buf_failed(&text))
		return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	if (!d->n_changes)
		print_head(d);
	/* Without the newline that json_out_end adds. */
	printf("%s\n%.*s", d->n_changes++ ? "," : "", (int)text.len - 1,
	       text.data);
	return 0;
}

int diff_json_uncovered(void *data, const struct sandlock_change *c)
{
	auto_ptr(json_out_free) struct json_out *o = json_out_new(false);
	auto_(buf) struct buf text = BUF_INIT, path = BUF_INIT;
	struct diff *d = data;

	if (!o)
		return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	change_path(&path, c);
	json_out_bytes(o, buf_str(&path), path.len);
	if (json_out_end(o, &text) < 0 || buf_failed(&text))
		return cmd_error(d->err, SANDLOCK_ERR_SYSTEM, ENOMEM,
				 "out of memory");
	printf("%s%.*s", d->n_uncovered++ ? "," : "", (int)text.len - 1,
	       text.data);
	return 0;
}

void diff_json_changes_end(const struct diff *d)
{
	if (!d->n_changes)
		print_head(d);
	printf("\n],\"uncovered\":[");
}

void diff_json_end(void)
{
	printf("]}\n");
}
