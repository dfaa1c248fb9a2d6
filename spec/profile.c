/* Profiles: the keys of request.c in TOML, found by name or path. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/nearest.h"
#include "base/path.h"
#include "spec/home.h"
#include "spec/parse.h"
#include "spec/request.h"
#include "spec/toml.h"

static const char suffix[] = ".toml";

/*
 * What profiles of others may say and this version has no such thing for:
 * better refused than run without it.
 */
/* clang-format off */
static const char *const missing_keys[] = {
	"config.http_ca", "config.http_key", "config.http_inject_ca",
	"config.http_ca_out",
	"determinism.random_seed", "determinism.time_start",
	"determinism.deterministic_dirs", "determinism.no_randomize_memory",
	"program.no_huge_pages",
	"http.ports", "http.allow", "http.deny",
	"limits.cpu", "limits.gpu_devices", "limits.cpu_cores",
	"limits.num_cpus",
};
/* clang-format on */

struct reader {
	struct request *request;
	const char *what;
	struct error *err;
	/* [program] uid and gid, which are one key of ours. */
	const struct toml *uid, *gid;
	/* A path of the host's home. */
	const struct toml **home;
	/* The [[stage]] tables of a file of stages, which are read apart. */
	const struct toml *stages;
};

static const char stage_key[] = "stage";

static int fail(const struct reader *r, struct toml_place at, const char *fmt,
		...) __attribute__((format(printf, 3, 4)));

static int fail(const struct reader *r, struct toml_place at, const char *fmt,
		...)
{
	char text[ERROR_MSG_MAX];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return error_say(r->err, ERR_USAGE, EINVAL, "%s:%u:%u: %s", r->what,
			 at.line, at.column, text);
}

static const char *nth_key(const void *v, size_t i)
{
	return request_keys[i].key;
}

static int fail_unknown(const struct reader *r, const struct toml *t,
			const char *key)
{
	const char *near;

	for (size_t i = 0; i < ARRAY_LEN(missing_keys); i++)
		if (strcmp(missing_keys[i], key) == 0)
			return fail(r, t->key_at,
				    "'%s' is not supported by this version",
				    key);
	(void)fail(r, t->key_at, "there is no key '%s'", SHOWN(key));
	near = nearest_word(key, nth_key, NULL, request_n_keys);
	if (near)
		return error_hint(r->err, "did you mean '%s'?", near);
	return error_hint(r->err, "sandlock.toml(5) lists them");
}

static int expand(const struct reader *r, const struct request_key *k,
		  const struct toml *v, const char *value, struct buf *ret)
{
	struct error e = ERROR_INIT;
	bool is_used = false;

	if (home_expand(value, ret, &is_used, &e) < 0) {
		(void)fail(r, v->at, "%s: %s", k->key, SHOWN(e.msg));
		return *e.hint ? error_hint(r->err, "%s", e.hint) : -EINVAL;
	}
	if (is_used && !(k->flags & REQUEST_OUTSIDE))
		*r->home = v;
	return 0;
}

static int set(const struct reader *r, const char *key, const struct toml *v,
	       const char *value)
{
	auto_(buf) struct buf where = BUF_INIT, path = BUF_INIT;
	const struct request_key *k = request_find_key(key);

	if (k && k->flags & REQUEST_PATH) {
		int n = expand(r, k, v, value, &path);

		if (n < 0)
			return n;
		value = buf_str(&path);
	}
	buf_printf(&where, "%s:%u:%u: %s", r->what, v->at.line, v->at.column,
		   key);
	return request_set(r->request, key, value, buf_str(&where), r->err);
}

static int set_integer(const struct reader *r, const char *key,
		       const struct toml *v)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRId64, v->integer);
	return set(r, key, v, text);
}

/* One of an array: a port may be a number. */
static int set_item(const struct reader *r, const struct request_key *k,
		    const struct toml *item)
{
	bool is_ports =
		k->kind == REQUEST_BIND_ALLOW || k->kind == REQUEST_BIND_DENY;

	if (item->type == TOML_STRING)
		return set(r, k->key, item, item->text);
	if (item->type == TOML_INTEGER && is_ports)
		return set_integer(r, k->key, item);
	return fail(r, item->at, "%s: %s is no string", k->key,
		    toml_type_name(item->type));
}

/* Strings, or one of them by itself. */
static int set_strings(const struct reader *r, const struct request_key *k,
		       const struct toml *v)
{
	int n = 0;

	if (v->type == TOML_STRING)
		return set(r, k->key, v, v->text);
	for (size_t i = 0; n == 0 && i < v->n; i++)
		n = set_item(r, k, v->items[i]);
	return n;
}

static int set_env(const struct reader *r, const struct request_key *k,
		   const struct toml *v)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < v->n; i++) {
		const struct toml *item = v->items[i];
		auto_(buf) struct buf b = BUF_INIT;

		if (item->type != TOML_STRING)
			return fail(r, item->at, "%s: %s is no string", k->key,
				    toml_type_name(item->type));
		if (!*item->key || strchr(item->key, '='))
			return fail(r, item->key_at,
				    "%s: '%s' is no name of a variable", k->key,
				    SHOWN(item->key));
		buf_printf(&b, "%s=%s", item->key, item->text);
		n = set(r, k->key, item, buf_str(&b));
	}
	return n;
}

const char *request_kind_form(enum request_kind kind)
{
	switch (kind) {
	case REQUEST_STRING:
		return "string";
	case REQUEST_LIST:
		return "[string, ...]";
	case REQUEST_BOOL:
	case REQUEST_NOT:
		return "true|false";
	case REQUEST_SIZE:
		return "number or \"512M\"";
	case REQUEST_COUNT:
		return "number";
	case REQUEST_TIME:
		return "seconds or \"1500ms\"";
	case REQUEST_DISPOSE:
		return "\"commit\"|\"abort\"|\"keep\"|\"defer\"";
	case REQUEST_ISOLATION:
		return "\"auto\"|\"namespaces\"|\"notify\"";
	case REQUEST_ENV:
		return "{NAME = string, ...}";
	case REQUEST_MOUNTS:
		return "[\"INSIDE:HOST[:ro|:rw]\", ...]";
	case REQUEST_USER:
		return "\"UID:GID\"";
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
		return "[\"HOST:PORT\", ...]";
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		return "[port or \"FIRST-LAST\", ...]";
	}
	return "";
}

/* Which types a key of this kind takes, as bits and for a message. */
static unsigned int kind_types(enum request_kind kind, const char **ret)
{
	switch (kind) {
	case REQUEST_STRING:
	case REQUEST_DISPOSE:
	case REQUEST_ISOLATION:
	case REQUEST_USER:
		*ret = "a string";
		return 1 << TOML_STRING;
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		*ret = "an array of ports";
		return 1 << TOML_STRING | 1 << TOML_ARRAY | 1 << TOML_INTEGER;
	case REQUEST_LIST:
	case REQUEST_MOUNTS:
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
		*ret = "an array of strings";
		return 1 << TOML_STRING | 1 << TOML_ARRAY;
	case REQUEST_BOOL:
	case REQUEST_NOT:
		*ret = "true or false";
		return 1 << TOML_BOOL;
	case REQUEST_SIZE:
	case REQUEST_TIME:
		*ret = "an integer or a string";
		return 1 << TOML_INTEGER | 1 << TOML_STRING;
	case REQUEST_COUNT:
		*ret = "an integer";
		return 1 << TOML_INTEGER;
	case REQUEST_ENV:
		*ret = "a table of strings";
		return 1 << TOML_TABLE;
	}
	*ret = "";
	return 0;
}

static int set_key(const struct reader *r, const struct request_key *k,
		   const struct toml *v)
{
	const char *wanted;

	if (!(kind_types(k->kind, &wanted) & 1U << v->type))
		return fail(r, v->at, "%s: this is %s, not %s", k->key,
			    toml_type_name(v->type), wanted);
	switch (v->type) {
	case TOML_BOOL:
		return set(r, k->key, v, v->boolean ? "true" : "false");
	case TOML_INTEGER:
		return set_integer(r, k->key, v);
	case TOML_TABLE:
		return set_env(r, k, v);
	case TOML_STRING:
	case TOML_ARRAY:
		return set_strings(r, k, v);
	case TOML_FLOAT:
	case TOML_DATE:
		break;
	}
	return -EINVAL;
}

static int read_member(struct reader *r, const char *section,
		       const struct toml *v)
{
	auto_(buf) struct buf key = BUF_INIT;
	const struct request_key *k;

	buf_printf(&key, "%s.%s", section, v->key);
	if (strcmp(buf_str(&key), "program.uid") == 0)
		r->uid = v;
	else if (strcmp(buf_str(&key), "program.gid") == 0)
		r->gid = v;
	else {
		k = request_find_key(buf_str(&key));
		return k ? set_key(r, k, v) : fail_unknown(r, v, buf_str(&key));
	}
	if (v->type == TOML_INTEGER && v->integer >= 0)
		return 0;
	return fail(r, v->at, "%s: this is no id", buf_str(&key));
}

static int set_ids(const struct reader *r)
{
	char text[48];

	if (!r->uid && !r->gid)
		return 0;
	if (!r->uid || !r->gid)
		return fail(r, r->uid ? r->uid->at : r->gid->at,
			    "program.uid and program.gid go together");
	(void)snprintf(text, sizeof(text), "%" PRId64 ":%" PRId64,
		       r->uid->integer, r->gid->integer);
	return set(r, "program.user", r->uid, text);
}

/* [[stage]], whatever is in it. */
static bool is_stages(const struct toml *t)
{
	return t->type == TOML_ARRAY && strcmp(t->key, stage_key) == 0 &&
	       t->n > 0 && t->items[0]->type == TOML_TABLE;
}

static int read_sections(struct reader *r, const struct toml *root)
{
	int n = 0;

	for (size_t i = 0; n == 0 && i < root->n; i++) {
		const struct toml *section = root->items[i];

		if (section == r->stages)
			continue;
		if (is_stages(section)) {
			(void)fail(r, section->key_at,
				   "stages stand where a profile is wanted");
			return error_hint(r->err, "they are run with --stage");
		}
		if (section->type != TOML_TABLE) {
			(void)fail(r, section->key_at,
				   "'%s' stands in no section",
				   SHOWN(section->key));
			return error_hint(r->err, "keys belong below a line "
						  "such as [program]");
		}
		for (size_t k = 0; n == 0 && k < section->n; k++)
			n = read_member(r, section->key, section->items[k]);
		if (!section->n)
			n = request_has_section(section->key)
				    ? 0
				    : fail(r, section->key_at,
					   "there is no section [%s]",
					   SHOWN(section->key));
	}
	if (n == 0 && *r->home && r->request->chroot) {
		(void)fail(r, (*r->home)->at,
			   "${HOME} stands beside filesystem.chroot");
		return error_hint(r->err, "in another root it is another path: "
					  "write which");
	}
	return n < 0 ? n : set_ids(r);
}

int profile_parse(struct request *request, const char *text, size_t len,
		  const char *what, struct error *err)
{
	struct error local = ERROR_INIT;
	const struct toml *home = NULL;
	struct reader r = {
		.request = request,
		.what = what,
		.home = &home,
		.err = err ? err : &local,
	};
	auto_ptr(toml_free) struct toml *root = NULL;
	int n = toml_parse(text, len, what, &root, r.err);

	return n < 0 ? n : read_sections(&r, root);
}

/* What stands outside of stages holds for all of them. */
static int read_stage(struct reader *r, const struct toml *root, size_t i,
		      size_t *ret_n)
{
	const struct toml *stages = toml_get(root, stage_key);
	int n;

	if (!stages || !is_stages(stages)) {
		*ret_n = 1;
		return read_sections(r, root);
	}
	if (i >= stages->n)
		return error_say(r->err, ERR_USAGE, EINVAL,
				 "%s: there is no stage %zu", r->what, i + 1);
	if (stages->items[i]->type != TOML_TABLE)
		return fail(r, stages->items[i]->at, "stage: %s is no stage",
			    toml_type_name(stages->items[i]->type));
	r->stages = stages;
	n = read_sections(r, root);
	if (n == 0)
		n = read_sections(r, stages->items[i]);
	if (n == 0)
		*ret_n = stages->n;
	return n;
}

static int read_file(const char *path, struct buf *text, struct error *err)
{
	int n = fd_read_file(AT_FDCWD, path, LIMIT_TOML_BYTES, text);

	return n < 0 ? error_set(err, ERR_USAGE, -n,
				 "cannot read the profile '%s'", path)
		     : 0;
}

int profile_load_stage(struct request *request, const char *path, size_t i,
		       size_t *ret_n, struct error *err)
{
	auto_ptr(toml_free) struct toml *root = NULL;
	auto_(buf) struct buf text = BUF_INIT;
	struct error local = ERROR_INIT;
	const struct toml *home = NULL;
	struct reader r = {
		.request = request,
		.what = path,
		.home = &home,
		.err = err ? err : &local,
	};
	int n = read_file(path, &text, r.err);

	if (n == 0)
		n = toml_parse(buf_str(&text), text.len, path, &root, r.err);
	return n < 0 ? n : read_stage(&r, root, i, ret_n);
}

/* The directories, the one that wins first; NULL where there is no such. */
static void find_dirs(char *ret[3])
{
	const char *own = getenv("SANDLOCK_CONFIG_DIR");
	const char *xdg = getenv("XDG_CONFIG_HOME");
	const char *home = getenv("HOME");

	if (own && *own)
		ret[0] = path_join(own, "profiles");
	else if (xdg && xdg[0] == '/')
		ret[0] = path_join(xdg, "sandlock/profiles");
	else if (home && home[0] == '/')
		ret[0] = path_join(home, ".config/sandlock/profiles");
	else
		ret[0] = NULL;
	ret[1] = strdup("/etc/sandlock/profiles");
	ret[2] = strdup("/usr/share/sandlock/profiles");
}

static void free_dirs(char *dirs[3])
{
	for (size_t i = 0; i < 3; i++)
		free(dirs[i]);
}

static int find_path(const char *name, char *dirs[3], char **ret)
{
	auto_(buf) struct buf file = BUF_INIT;

	buf_printf(&file, "%s%s", name, suffix);
	for (size_t i = 0; i < 3; i++) {
		auto_free char *path =
			dirs[i] ? path_join(dirs[i], buf_str(&file)) : NULL;

		/* What is there but cannot be read is told by its reader. */
		if (path && (access(path, F_OK) == 0 || errno == EACCES)) {
			*ret = take_ptr(&path);
			return 0;
		}
	}
	return -ENOENT;
}

int profile_path(const char *name, char **ret, struct error *err)
{
	char *dirs[3];
	int n = name_check(name, NULL);

	if (n < 0) {
		(void)error_say(err, ERR_USAGE, EINVAL,
				"'%s' is no name of a profile", SHOWN(name));
		return error_hint(err, "a file is named with --profile-file");
	}
	find_dirs(dirs);
	n = find_path(name, dirs, ret);
	if (n < 0) {
		(void)error_say(err, ERR_NOT_FOUND, ENOENT,
				"there is no profile '%s'", name);
		if (dirs[0])
			(void)error_hint(err, "it would be '%s/%s%s'", dirs[0],
					 name, suffix);
		n = -ENOENT;
	}
	free_dirs(dirs);
	return n;
}

int profile_load(struct request *request, const char *name_or_path,
		 bool is_path, struct error *err)
{
	auto_(buf) struct buf text = BUF_INIT;
	auto_free char *found = NULL;
	const char *path = name_or_path;
	int n = 0;

	if (!is_path) {
		n = profile_path(name_or_path, &found, err);
		path = found;
	}
	if (n == 0)
		n = read_file(path, &text, err);
	return n < 0 ? n
		     : profile_parse(request, buf_str(&text), text.len, path,
				     err);
}

static bool is_listed(const struct spec_strings *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i], name) == 0)
			return true;
	return false;
}

/* Adds "NAME.toml" as "NAME"; -ENOMEM. */
static int add_name(struct spec_strings *l, const char *file)
{
	size_t len = strlen(file), n = strlen(suffix);
	auto_free char *name = NULL;
	char **v;

	if (len <= n || strcmp(file + len - n, suffix) != 0)
		return 0;
	name = strndup(file, len - n);
	if (!name)
		return -ENOMEM;
	if (name_check(name, NULL) < 0 || is_listed(l, name))
		return 0;
	v = reallocarray(l->v, l->n + 1, sizeof(*v));
	if (!v)
		return -ENOMEM;
	l->v = v;
	v[l->n++] = take_ptr(&name);
	return 0;
}

static int add_names(struct spec_strings *l, const char *path)
{
	auto_dir DIR *dir = path ? opendir(path) : NULL;
	int n = 0;

	if (!dir)
		return 0;
	for (struct dirent *e = readdir(dir); e && n == 0; e = readdir(dir))
		n = add_name(l, e->d_name);
	return n;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

int profile_list(char ***ret_names, size_t *ret_n, struct error *err)
{
	struct spec_strings l = { .n = 0 };
	char *dirs[3];
	int n = 0;

	find_dirs(dirs);
	for (size_t i = 0; n == 0 && i < 3; i++)
		n = add_names(&l, dirs[i]);
	free_dirs(dirs);
	if (n < 0) {
		spec_strings_done(&l);
		return error_set(err, ERR_SYSTEM, -n, "cannot list profiles");
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), compare);
	*ret_names = l.v;
	*ret_n = l.n;
	return 0;
}
