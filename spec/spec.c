#include "spec/spec.h"

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
#include "spec/parse.h"

enum { HOST_NAME_LEN = 64 }; /* __NEW_UTS_LEN */

CLEANUP_PTR(struct json, json_free);
CLEANUP_PTR(struct spec, spec_free);
CLEANUP_PTR(struct spec_process, spec_process_free);
CLEANUP_PTR(struct spec_resources, spec_resources_free);

/* Digits without a leading zero. */
static const char *skip_number(const char *s)
{
	size_t n = strspn(s, "0123456789");

	return n == 0 || (n > 1 && *s == '0') ? NULL : s + n;
}

/* Dot-separated identifiers; @numbers_strict: without leading zeros. */
static const char *skip_identifiers(const char *s, bool numbers_strict)
{
	for (;;) {
		size_t digits = strspn(s, "0123456789");
		size_t n = strspn(s, "0123456789-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				     "abcdefghijklmnopqrstuvwxyz");

		if (n == 0 ||
		    (numbers_strict && n == digits && n > 1 && *s == '0'))
			return NULL;
		s += n;
		if (*s != '.')
			return s;
		s++;
	}
}

/* SemVer 2.0.0. */
static bool is_semver(const char *s)
{
	for (int i = 0; s && i < 3; i++) {
		if (i > 0 && *s++ != '.')
			return false;
		s = skip_number(s);
	}
	if (s && *s == '-')
		s = skip_identifiers(s + 1, true);
	if (s && *s == '+')
		s = skip_identifiers(s + 1, false);
	return s && *s == '\0';
}

static unsigned long minor_of(const struct spec *s)
{
	return strtoul(s->oci_version + 2, NULL, 10);
}

/*
 * The same major version is compatible. A newer minor one may have properties
 * that we do not know; those are ignored like all unknown ones, with a word.
 */
static int check_version(const struct at *at, void *obj)
{
	const struct spec *s = obj;
	const char *v = s->oci_version;

	if (!is_semver(v))
		return at_fail(at, "'%s' is no SemVer version", SHOWN(v));
	if (strncmp(v, "1.", 2) != 0)
		return at_fail(at,
			       "unknown version '%s': this runtime "
			       "implements %s",
			       SHOWN(v), SPEC_OCI_VERSION);
	if (minor_of(s) > 3)
		at_warn(at, "'%s' is newer than %s: what it added is ignored",
			SHOWN(v), SPEC_OCI_VERSION);
	return 0;
}

static int check_root_path(const struct at *at, void *obj)
{
	struct spec *s = obj;
	char *path;

	if (s->root_path[0] == '/')
		return 0;
	path = path_join(s->bundle, s->root_path);
	if (!path)
		return at_no_memory(at);
	free(s->root_path);
	s->root_path = path;
	return 0;
}

static int check_host_name(const struct at *at, const char *name)
{
	if (strlen(name) > HOST_NAME_LEN)
		return at_fail(at, "is longer than %d bytes", HOST_NAME_LEN);
	return 0;
}

static int check_hostname(const struct at *at, void *obj)
{
	const struct spec *s = obj;

	return s->hostname ? check_host_name(at, s->hostname) : 0;
}

static int check_domainname(const struct at *at, void *obj)
{
	const struct spec *s = obj;

	return s->domainname ? check_host_name(at, s->domainname) : 0;
}

static const struct field pair_fields[] = {
	{ NULL, FIELD_STR, 0, MEMBER(struct spec_pair, value) },
};
const struct shape pair_shape = { SHAPE(struct spec_pair, pair_fields) };

/* clang-format off */
#define S(m) MEMBER(struct spec, m)
static const struct field root_fields[] = {
	{ "path",     FIELD_STR, FIELD_REQUIRED | STR_NONEMPTY, S(root_path),
	  .check = check_root_path },
	{ "readonly", FIELD_BOOL, 0, S(root_readonly) },
};
static const struct shape root_shape = { SHAPE(struct spec, root_fields) };

static const struct field spec_fields[] = {
	{ "ociVersion",	 FIELD_STR, FIELD_REQUIRED, S(oci_version),
	  .check = check_version },
	{ "root",	 FIELD_OBJ, FIELD_REQUIRED, .shape = &root_shape },
	{ "process",	 FIELD_OBJ, 0, S(process), HAS(struct spec, has_process),
	  .shape = &process_shape },
	{ "hostname",	 FIELD_STR, STR_MAY_BE_NONE, S(hostname),
	  .check = check_hostname },
	{ "domainname",	 FIELD_STR, STR_MAY_BE_NONE, S(domainname),
	  .check = check_domainname },
	{ "mounts",	 FIELD_ARRAY, 0, S(mounts), COUNT(struct spec, n_mounts),
	  .shape = &mount_shape, .max = LIMIT_MOUNTS },
	{ "annotations", FIELD_MAP, 0, S(annotations),
	  COUNT(struct spec, n_annotations), .shape = &pair_shape,
	  .max = 4096 },
	{ "hooks",	 FIELD_OBJ, 0, S(hooks), .shape = &hooks_shape },
	{ "linux",	 FIELD_OBJ, 0, .shape = &linux_shape },
};
#undef S
/* clang-format on */

/* Before 1.3 a limit of 0 was none at all, and podman 4 says it so. */
static void settle_pids_limit(struct spec *s)
{
	if (minor_of(s) < 3 && s->resources.pids_limit == 0)
		s->resources.pids_limit = -1;
}

/* What depends on the namespaces, which stand anywhere in the document. */
static int check_spec(const struct at *at, void *obj)
{
	struct spec *s = obj;
	bool uts = ns_is_private(s, SPEC_NS_UTS);
	int r;

	if (s->hostname && !uts)
		return at_fail_member(at, "hostname",
				      "requires a private UTS namespace");
	if (s->domainname && !uts)
		return at_fail_member(at, "domainname",
				      "requires a private UTS namespace");
	if ((s->time_monotonic.given || s->time_boottime.given) &&
	    s->ns[SPEC_NS_TIME].want != SPEC_NS_NEW)
		return at_fail_member(at, "linux",
				      "timeOffsets require a new time "
				      "namespace");
	if (s->n_net_devices && !ns_is_private(s, SPEC_NS_NETWORK))
		return at_fail_member(at, "linux",
				      "netDevices require a private network "
				      "namespace");
	settle_pids_limit(s);
	r = check_id_maps(at, s);
	if (r >= 0)
		r = check_sysctls(at, s);
	if (r >= 0)
		r = finish_mounts(at, s);
	return r < 0 ? r : read_branch(at, s);
}

static void done_spec(void *obj)
{
	struct spec *s = obj;

	free(s->bundle);
	free(s->branch.storage);
	spec_strings_done(&s->ask.exec);
	spec_strings_done(&s->ask.open);
	spec_strings_done(&s->ask.connect);
	free(s->ask.timeout);
}

static const struct shape spec_shape = { SHAPE(struct spec, spec_fields),
					 .check = check_spec,
					 .done = done_spec };

void spec_free(struct spec *s)
{
	if (!s)
		return;
	shape_done(&spec_shape, s);
	free(s);
}

/* Reads @data by @shape into @obj; @parse says where errors go. */
static int parse_into(const struct parse *parse, const char *data, size_t len,
		      const struct shape *shape, void *obj)
{
	static const struct json_limits limits = {
		.bytes = LIMIT_CONFIG_BYTES,
		.depth = LIMIT_CONFIG_DEPTH,
		.values = LIMIT_CONFIG_VALUES,
	};
	auto_ptr(json_free) struct json *root = NULL;
	int r = json_parse(data, len, &limits, parse->what, &root, parse->err);

	if (r < 0)
		return r;
	return shape_read(&(struct at){ .p = parse, .v = root }, shape, obj);
}

int spec_parse(const char *data, size_t len, const char *bundle,
	       const struct log_sink *log, struct spec **ret, struct error *err)
{
	const struct parse parse = { "config.json", log, err };
	auto_ptr(spec_free) struct spec *s = calloc(1, sizeof(*s));
	int r;

	if (s)
		s->bundle = strdup(bundle);
	if (!s || !s->bundle)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
				 parse.what);
	s->branch.on_exit = s->branch.on_error = DISPOSE_UNSAID;
	r = parse_into(&parse, data, len, &spec_shape, s);
	if (r < 0)
		return r;
	*ret = take_ptr(&s);
	return 0;
}

int spec_process_parse(const char *data, size_t len, const struct log_sink *log,
		       struct spec_process **ret, struct error *err)
{
	const struct parse parse = { "process.json", log, err };
	auto_ptr(spec_process_free) struct spec_process *p =
		calloc(1, sizeof(*p));
	int r;

	if (!p)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
				 parse.what);
	r = parse_into(&parse, data, len, &process_shape, p);
	if (r < 0)
		return r;
	*ret = take_ptr(&p);
	return 0;
}

int spec_resources_parse(const char *data, size_t len,
			 const struct log_sink *log,
			 struct spec_resources **ret, struct error *err)
{
	const struct parse parse = { "resources", log, err, true };
	auto_ptr(spec_resources_free) struct spec_resources *res =
		calloc(1, sizeof(*res));
	int r;

	if (!res)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
				 parse.what);
	r = parse_into(&parse, data, len, &resources_shape, res);
	if (r < 0)
		return r;
	*ret = take_ptr(&res);
	return 0;
}

static int read_fd(int fd, const char *path, struct buf *b, struct error *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0)
		return error_set(err, ERR_BUNDLE, errno, "cannot stat '%s'",
				 path);
	if (S_ISDIR(st.st_mode))
		return error_set(err, ERR_BUNDLE, EISDIR, "cannot read '%s'",
				 path);
	r = fd_read_all(fd, LIMIT_CONFIG_BYTES, b);
	if (r == -EFBIG)
		return error_say(err, ERR_BUNDLE, EFBIG,
				 "'%s' has more than %d bytes", path,
				 LIMIT_CONFIG_BYTES);
	if (r < 0)
		return error_set(err, ERR_BUNDLE, -r, "cannot read '%s'", path);
	return 0;
}

/* A file, a pipe or a terminal: who names it on purpose may well wait. */
static int read_named(const char *path, struct buf *b, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_set(err, ERR_BUNDLE, errno, "cannot open '%s'",
				 path);
	return read_fd(fd, path, b, err);
}

static int read_config(const char *bundle, struct buf *b, struct error *err)
{
	auto_free char *path = path_join(bundle, "config.json");
	auto_close int fd = -1;
	struct stat st;

	if (!path)
		return error_set(err, ERR_SYSTEM, ENOMEM, "cannot read '%s'",
				 bundle);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0) {
		int r = error_set(err, ERR_BUNDLE, errno, "cannot open '%s'",
				  path);

		if (r == -ENOENT)
			error_hint(err, "'sandlock spec -b %s' writes one",
				   bundle);
		return r;
	}
	if (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return error_say(err, ERR_BUNDLE, EINVAL,
				 "'%s' is no regular file", path);
	return read_fd(fd, path, b, err);
}

int spec_read(const char *bundle, const char *config, struct buf *ret,
	      struct error *err)
{
	return config ? read_named(config, ret, err)
		      : read_config(bundle, ret, err);
}

int spec_process_load(const char *path, const struct log_sink *log,
		      struct spec_process **ret, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r = read_named(path, &b, err);

	if (r < 0)
		return r;
	return spec_process_parse(buf_str(&b), b.len, log, ret, err);
}

int spec_resources_load(const char *path, const struct log_sink *log,
			struct spec_resources **ret, struct error *err)
{
	auto_(buf) struct buf b = BUF_INIT;
	int r;

	if (strcmp(path, "-") == 0)
		r = read_fd(STDIN_FILENO, "standard input", &b, err);
	else
		r = read_named(path, &b, err);
	if (r < 0)
		return r;
	return spec_resources_parse(buf_str(&b), b.len, log, ret, err);
}

const char *spec_annotation(const struct spec *s, const char *key)
{
	for (size_t i = 0; i < s->n_annotations; i++)
		if (strcmp(s->annotations[i].key, key) == 0)
			return s->annotations[i].value;
	return NULL;
}
