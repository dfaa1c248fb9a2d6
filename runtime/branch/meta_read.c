/*
 * The strict reader of meta.json. The file lies in a directory of ours, but a
 * disk may be damaged or a backup be put back by hand: whatever is not exactly
 * what meta.c writes is refused as a whole.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/limits.h"
#include "base/path.h"
#include "branch/internal.h"

CLEANUP_PTR(struct json, json_free);

enum { NSEC_PER_SEC = 1000000000, RECORD_FIELDS = 11 };

/* What is read, and the first thing that is wrong with it. */
struct source {
	const struct json *root;
	const char *wrong; /* NULL: nothing yet; else the key */
	bool no_memory;
};

static void spoil(struct source *s, const char *key)
{
	if (!s->wrong)
		s->wrong = key;
}

static bool get_uint(const struct json *j, uint64_t max, uint64_t *ret)
{
	uint64_t v;

	if (!j || j->type != JSON_NUMBER || json_uint64(j, &v) < 0 || v > max)
		return false;
	*ret = v;
	return true;
}

static uint64_t want_uint(struct source *s, const char *key, uint64_t max)
{
	uint64_t v = 0;

	if (!get_uint(json_get(s->root, key), max, &v))
		spoil(s, key);
	return v;
}

static bool want_bool(struct source *s, const char *key)
{
	const struct json *j = json_get(s->root, key);

	if (!j || j->type != JSON_BOOL) {
		spoil(s, key);
		return false;
	}
	return j->boolean;
}

static int base64_value(char c)
{
	static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz0123456789+/";
	const char *p = c ? strchr(digits, c) : NULL;

	return p ? (int)(p - digits) : -1;
}

/* Decodes padded base64 into a string; NULL if it is none or holds a NUL. */
static char *from_base64(const char *text)
{
	size_t len = strlen(text), n = 0;
	auto_free char *out = malloc(len / 4 * 3 + 1);

	if (!out || len % 4 != 0)
		return NULL;
	for (size_t i = 0; i < len; i += 4) {
		unsigned int pad = 0;
		uint32_t v = 0;

		for (size_t k = 0; k < 4; k++) {
			int d = base64_value(text[i + k]);

			if (text[i + k] == '=' && i + 4 == len && k >= 2) {
				pad++;
				d = 0;
			} else if (pad > 0) {
				d = -1;
			}
			if (d < 0)
				return NULL;
			v = v << 6 | (uint32_t)d;
		}
		for (unsigned int k = 0; k < 3 - pad; k++)
			out[n++] = (char)(v >> (16 - 8 * k) & 0xff);
	}
	out[n] = '\0';
	return strlen(out) == n ? take_ptr(&out) : NULL;
}

/* What json_out_bytes wrote; malloc'ed, NULL if it is something else. */
static char *get_name(const struct json *j)
{
	const struct json *b64 = json_get(j, "b64");

	if (!j)
		return NULL;
	if (j->type == JSON_STRING)
		return strdup(j->text);
	if (!b64 || b64->type != JSON_STRING)
		return NULL;
	return from_base64(b64->text);
}

static char *want_name(struct source *s, const char *key)
{
	char *name = get_name(json_get(s->root, key));

	if (!name)
		spoil(s, key);
	return name;
}

/* An absolute path without "..", or nothing. */
static char *want_path(struct source *s, const char *key)
{
	char *path = want_name(s, key);
	auto_free char *normal = path ? path_normalize(path) : NULL;

	if (path && (path[0] != '/' || !normal || strcmp(path, normal) != 0))
		spoil(s, key);
	return path;
}

static bool get_time(const struct json *sec, const struct json *nsec,
		     struct timespec *ret)
{
	uint64_t n;
	int64_t v;

	if (!sec || sec->type != JSON_NUMBER || json_int64(sec, &v) < 0 ||
	    !get_uint(nsec, NSEC_PER_SEC - 1, &n))
		return false;
	ret->tv_sec = v;
	ret->tv_nsec = (long)n;
	return true;
}

static struct timespec want_time(struct source *s, const char *key)
{
	const struct json *j = json_get(s->root, key);
	struct timespec t = { 0 };

	if (!j || j->type != JSON_ARRAY || j->n != 2 ||
	    !get_time(&j->items[0], &j->items[1], &t))
		spoil(s, key);
	return t;
}

static bool get_extent(const struct json *j, struct idmap_list *l)
{
	uint64_t v[3];

	if (j->type != JSON_ARRAY || j->n != ARRAY_LEN(v))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		if (!get_uint(&j->items[i], UINT32_MAX, &v[i]))
			return false;
	}
	return idmap_add(l, (uint32_t)v[0], (uint32_t)v[1], (uint32_t)v[2]) ==
	       0;
}

static void want_ids(struct source *s, const char *key, struct idmap_list *l)
{
	const struct json *j = json_get(s->root, key);

	if (!j || j->type != JSON_ARRAY || j->n > LIMIT_ID_MAPPINGS) {
		spoil(s, key);
		return;
	}
	for (size_t i = 0; i < j->n; i++) {
		if (!get_extent(&j->items[i], l))
			spoil(s, key);
	}
}

static char **want_argv(struct source *s, const char *key)
{
	const struct json *j = json_get(s->root, key);
	char **argv;

	if (!j)
		return NULL;
	if (j->type != JSON_ARRAY) {
		spoil(s, key);
		return NULL;
	}
	argv = calloc(j->n + 1, sizeof(*argv));
	for (size_t i = 0; argv && i < j->n; i++) {
		argv[i] = get_name(&j->items[i]);
		if (!argv[i])
			spoil(s, key);
		if (s->wrong)
			break;
	}
	if (!argv)
		s->no_memory = true;
	return argv;
}

static enum disposition want_disposition(struct source *s, const char *key)
{
	const struct json *j = json_get(s->root, key);
	enum disposition d = DISPOSE_UNSAID;

	if (j && (j->type != JSON_STRING || disposition_parse(j->text, &d) < 0))
		spoil(s, key);
	return d;
}

static enum exit_kind want_exit_kind(struct source *s, const char *key)
{
	static const char *const names[] = {
		[EXIT_UNKNOWN] = "unknown", [EXIT_CODE] = "code",
		[EXIT_SIGNAL] = "signal",   [EXIT_TIMEOUT] = "timeout",
		[EXIT_QUOTA] = "quota",
	};
	const struct json *j = json_get(s->root, key);

	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		if (j && j->type == JSON_STRING &&
		    strcmp(j->text, names[i]) == 0)
			return (enum exit_kind)i;
	}
	spoil(s, key);
	return EXIT_UNKNOWN;
}

/* Relative, without "." and ".."; "" is the root itself. */
static bool is_record_path(const char *path)
{
	auto_free char *normal = NULL;

	if (path[0] == '\0')
		return true;
	if (path[0] == '/' || strncmp(path, "..", 3) == 0 ||
	    strncmp(path, "../", 3) == 0)
		return false;
	normal = path_normalize(path);
	return normal && strcmp(path, normal) == 0 && strcmp(path, ".") != 0;
}

static bool get_record(const struct json *j, struct branch_record *r)
{
	uint64_t mode, uid, gid, size = 0;
	bool has_size;

	if (j->type != JSON_ARRAY ||
	    (j->n != RECORD_FIELDS && j->n != RECORD_FIELDS - 1))
		return false;
	has_size = j->n == RECORD_FIELDS;
	if (!get_uint(&j->items[1], UINT64_MAX, &r->dev) ||
	    !get_uint(&j->items[2], UINT64_MAX, &r->ino) ||
	    !get_uint(&j->items[3], UINT32_MAX, &mode) ||
	    !get_uint(&j->items[4], UINT32_MAX, &uid) ||
	    !get_uint(&j->items[5], UINT32_MAX, &gid) ||
	    !get_time(&j->items[6], &j->items[7], &r->mtime) ||
	    !get_time(&j->items[8], &j->items[9], &r->ctime) ||
	    (has_size && !get_uint(&j->items[10], INT64_MAX, &size)))
		return false;
	r->size = has_size ? (int64_t)size : -1;
	r->mode = (uint32_t)mode;
	r->uid = (uint32_t)uid;
	r->gid = (uint32_t)gid;
	r->path = get_name(&j->items[0]);
	return r->path && is_record_path(r->path);
}

static void want_records(struct source *s, const char *key,
			 struct branch_record **ret, size_t *ret_n)
{
	const struct json *j = json_get(s->root, key);

	if (!j || j->type != JSON_ARRAY) {
		spoil(s, key);
		return;
	}
	if (j->n == 0)
		return;
	*ret = calloc(j->n, sizeof(**ret));
	if (!*ret) {
		s->no_memory = true;
		return;
	}
	for (size_t i = 0; i < j->n && !s->wrong; i++) {
		struct branch_record *r = &(*ret)[i];
		bool good = get_record(&j->items[i], r);

		*ret_n = i + 1;
		if (!good || (i > 0 && strcmp(r[-1].path, r->path) >= 0))
			spoil(s, key);
	}
}

static void want_boot_id(struct source *s, const char *key, char *ret)
{
	const struct json *j = json_get(s->root, key);

	if (!j || j->type != JSON_STRING || strlen(j->text) != BOOT_ID_LEN)
		spoil(s, key);
	else
		memcpy(ret, j->text, BOOT_ID_LEN + 1);
}

static void get_meta(struct source *s, struct branch_meta *m)
{
	m->version = (int)want_uint(s, "version", BRANCH_META_VERSION);
	if (!s->wrong && m->version != BRANCH_META_VERSION)
		spoil(s, "version");
	m->name = want_name(s, "name");
	if (m->name && !is_root_name(m->name))
		spoil(s, "name");
	m->lower = want_path(s, "lower");
	m->lower_dev = want_uint(s, "lower_dev", UINT64_MAX);
	m->lower_ino = want_uint(s, "lower_ino", UINT64_MAX);
	m->base_time = want_time(s, "base_time");
	m->created = want_time(s, "created");
	want_boot_id(s, "boot_id", m->boot_id);
	want_ids(s, "uids", &m->idmap.uids);
	want_ids(s, "gids", &m->idmap.gids);
	m->userxattr = want_bool(s, "userxattr");
	if (json_get(s->root, "notify"))
		m->notify = want_bool(s, "notify");
	if (json_get(s->root, "hidden"))
		m->hidden = want_bool(s, "hidden");
	m->staged = want_bool(s, "staged");
	m->durable = want_bool(s, "durable");
	m->quota_bytes = want_uint(s, "quota_bytes", UINT64_MAX);
	m->on_exit = want_disposition(s, "on_exit");
	m->on_error = want_disposition(s, "on_error");
	m->argv = want_argv(s, "argv");
	if (json_get(s->root, "roots"))
		m->n_roots = (unsigned int)want_uint(s, "roots", ROOTS_MAX);
	if (json_get(s->root, "storage_dirs"))
		m->storage_dirs =
			(unsigned int)want_uint(s, "storage_dirs", UINT16_MAX);
	if (json_get(s->root, "bundle"))
		m->bundle = want_name(s, "bundle");
	m->init.pid = (pid_t)want_uint(s, "init_pid", INT32_MAX);
	m->init.start_time = want_uint(s, "init_start_time", UINT64_MAX);
	m->settled = want_bool(s, "settled");
	m->status.kind = want_exit_kind(s, "exit_kind");
	m->status.value = (int)want_uint(s, "exit_value", INT32_MAX);
	want_records(s, "made", &m->made, &m->n_made);
	want_records(s, "bases", &m->bases, &m->n_bases);
	if (json_get(s->root, "equal"))
		want_records(s, "equal", &m->equal, &m->n_equal);
	if (json_get(s->root, "modes"))
		want_records(s, "modes", &m->modes, &m->n_modes);
}

int meta_parse(const char *data, size_t len, const char *what,
	       struct branch_meta *ret, struct error *err)
{
	static const struct json_limits limits = {
		.bytes = LIMIT_META_BYTES,
		.depth = 8,
		.values = LIMIT_META_VALUES,
	};
	auto_ptr(json_free) struct json *root = NULL;
	auto_(meta) struct branch_meta m = { 0 };
	struct source s = { 0 };
	int r;

	r = json_parse(data, len, &limits, what, &root, err);
	if (r < 0) {
		if (err && err->kind != ERR_SYSTEM)
			err->kind = ERR_TORN;
		return r;
	}
	if (root->type != JSON_OBJECT)
		return error_say(err, ERR_TORN, EINVAL, "'%s' is no object",
				 what);
	s.root = root;
	get_meta(&s, &m);
	if (s.no_memory)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
				 what);
	if (s.wrong)
		return error_say(err, ERR_TORN, EINVAL,
				 "'%s' is damaged: '%s' is not as it should be",
				 what, s.wrong);
	*ret = m;
	m = (struct branch_meta){ 0 };
	return 0;
}

int meta_read(int dir_fd, struct branch_meta *ret, struct error *err)
{
	auto_close int fd =
		openat(dir_fd, "meta.json",
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	auto_(buf) struct buf b = BUF_INIT;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set(err, ERR_TORN, errno,
				 "cannot open 'meta.json'");
	if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
		return error_say(err, ERR_TORN, EPERM,
				 "'meta.json' is no file of ours");
	r = fd_read_all(fd, LIMIT_META_BYTES, &b);
	if (r < 0)
		return error_set(err, ERR_SYSTEM, -r,
				 "cannot read 'meta.json'");
	return meta_parse(buf_str(&b), b.len, "meta.json", ret, err);
}
