#include "spec/request.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "spec/parse.h"

#define ROW(k, f, kind, member, help, flags)                              \
	{                                                                 \
		k, f, kind, offsetof(struct request, member), help, flags \
	}
#define KEY(k, f, kind, member, help) ROW(k, f, kind, member, help, 0)
#define BOTH(k, f, kind, member, help) \
	ROW(k, f, kind, member, help, REQUEST_OF_BUNDLE)

/* clang-format off */
const struct request_key request_keys[] = {
	ROW("program.bundle", NULL, REQUEST_STRING, bundle, "a bundle, instead of a command of the host", REQUEST_OF_BUNDLE | REQUEST_PATH | REQUEST_OUTSIDE),
	KEY("program.exec", NULL, REQUEST_STRING, exec, "the program"),
	BOTH("program.args", NULL, REQUEST_LIST, args, "its arguments"),
	KEY("program.env", "env", REQUEST_ENV, env, "variables that are added"),
	ROW("program.cwd", "cwd", REQUEST_STRING, cwd, "where it starts", REQUEST_PATH),
	KEY("program.user", "user", REQUEST_USER, uid, "its ids inside"),
	KEY("program.clean_env", "clean-env", REQUEST_BOOL, clean_env, "only PATH, HOME, USER, TERM, LANG and the like are passed on"),
	KEY("program.no_coredump", NULL, REQUEST_BOOL, no_coredump, "no core files"),
	BOTH("program.control_socket", "control-socket", REQUEST_NOT, no_control_socket, "whether other commands can see it and ask it (default: true)"),
	BOTH("program.no_supervisor", "no-supervisor", REQUEST_BOOL, no_supervisor, "no process of ours answers for it: no control socket, no rule that needs one"),
	KEY("program.isolation", "isolation", REQUEST_ISOLATION, isolation, "what keeps it in: namespaces, or Landlock and notification where there can be none"),
	KEY("program.explain", "explain", REQUEST_BOOL, explain, "what files were out of reach goes on record, too"),
	ROW("filesystem.read", "fs-read", REQUEST_LIST, read, "what may be read, instead of the system's directories", REQUEST_PATH),
	ROW("filesystem.write", "fs-write", REQUEST_LIST, write, "what is written through, past the branch", REQUEST_PATH),
	ROW("filesystem.deny", "fs-deny", REQUEST_LIST, deny, "what is hidden", REQUEST_PATH),
	ROW("filesystem.mount", "fs-mount", REQUEST_MOUNTS, mounts, "what is mounted elsewhere", REQUEST_PATH),
	ROW("filesystem.chroot", "chroot", REQUEST_STRING, chroot, "a directory that is the command's root, on a branch unless workdirs in it are named", REQUEST_PATH | REQUEST_OUTSIDE),
	BOTH("filesystem.on_exit", "on-exit", REQUEST_DISPOSE, on_exit, "what becomes of the branch after success"),
	BOTH("filesystem.on_error", "on-error", REQUEST_DISPOSE, on_error, "what becomes of the branch after a failure"),
	ROW("config.workdir", "workdir", REQUEST_LIST, workdirs, "the directories that are worked in, on a branch", REQUEST_PATH),
	BOTH("config.branch", NULL, REQUEST_NOT, no_branch, "whether the workdir is on a branch; false: no workdir at all (default: true)"),
	ROW("config.fs_storage", "storage", REQUEST_STRING, storage, "where the branch is kept", REQUEST_OF_BUNDLE | REQUEST_PATH | REQUEST_OUTSIDE),
	KEY("network.allow", "net-allow", REQUEST_NET_ALLOW, net_allow, "what may be connected to"),
	KEY("network.deny", "net-deny", REQUEST_NET_DENY, net_deny, "what may not be connected to, instead"),
	KEY("network.allow_bind", "net-allow-bind", REQUEST_BIND_ALLOW, bind_allow, "ports that may be bound"),
	KEY("network.deny_bind", "net-deny-bind", REQUEST_BIND_DENY, bind_deny, "ports that may not be bound, instead"),
	KEY("network.port_remap", "port-remap", REQUEST_BOOL, port_remap, "ports that are bound are free ones of the host"),
	KEY("syscalls.extra_allow", "extra-allow-syscall", REQUEST_LIST, extra_allow, "groups of system calls that are allowed after all"),
	KEY("syscalls.extra_deny", "extra-deny-syscall", REQUEST_LIST, extra_deny, "system calls, or groups of them, that are denied, too"),
	ROW("ask.exec", "ask-exec", REQUEST_LIST, ask_exec, "programs that somebody is asked about", REQUEST_OF_BUNDLE | REQUEST_PATH),
	ROW("ask.open", "ask-open", REQUEST_LIST, ask_open, "files that somebody is asked about", REQUEST_OF_BUNDLE | REQUEST_PATH),
	BOTH("ask.connect", "ask-connect", REQUEST_NET_ALLOW, ask_connect, "destinations that somebody is asked about"),
	BOTH("ask.by", "ask", REQUEST_STRING, ask_by, "who is asked: tty, socket, never, or a program"),
	BOTH("ask.timeout", "ask-timeout", REQUEST_TIME, ask_timeout_ms, "when what nobody answered is denied (default: 120s, 20s for the network)"),
	BOTH("ask.limit", NULL, REQUEST_COUNT, ask_limit, "how many questions are open at once (default: 64)"),
	KEY("limits.memory", "max-memory", REQUEST_SIZE, memory_bytes, "memory, in bytes or with K, M, G"),
	ROW("limits.disk", "quota", REQUEST_SIZE, quota_bytes, "what the branch may take on disk, in bytes or with K, M, G", REQUEST_OF_BUNDLE),
	KEY("limits.processes", "max-processes", REQUEST_COUNT, processes, "how many processes and threads"),
	KEY("limits.open_files", "max-open-files", REQUEST_COUNT, open_files, "open files of each process"),
	BOTH("limits.timeout", "timeout", REQUEST_TIME, timeout_ms, "when all is killed, in seconds or with ms, s, m, h"),
};
/* clang-format on */
const size_t request_n_keys = ARRAY_LEN(request_keys);

const struct request_key *request_find_key(const char *key)
{
	for (size_t i = 0; i < request_n_keys; i++)
		if (strcmp(request_keys[i].key, key) == 0)
			return &request_keys[i];
	return NULL;
}

bool request_has_section(const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i < request_n_keys; i++)
		if (strncmp(request_keys[i].key, name, n) == 0 &&
		    request_keys[i].key[n] == '.')
			return true;
	return false;
}

static const char *const isolations[] = {
	[ISOLATION_AUTO] = "auto",
	[ISOLATION_NAMESPACES] = "namespaces",
	[ISOLATION_NOTIFY] = "notify",
};

int isolation_parse(const char *text, enum isolation *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(isolations); i++) {
		if (strcmp(isolations[i], text) == 0) {
			*ret = (enum isolation)i;
			return 0;
		}
	}
	return -EINVAL;
}

const char *isolation_name(enum isolation i)
{
	return isolations[i];
}

struct request *request_new(void)
{
	struct request *r = calloc(1, sizeof(*r));

	if (r)
		r->on_exit = r->on_error = DISPOSE_UNSAID;
	return r;
}

static void clear_key(struct request *r, const struct request_key *k)
{
	void *at = (char *)r + k->offset;

	switch (k->kind) {
	case REQUEST_STRING:
		free(*(char **)at);
		*(char **)at = NULL;
		break;
	case REQUEST_LIST:
	case REQUEST_ENV:
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		spec_strings_done(at);
		*(struct spec_strings *)at = (struct spec_strings){ .n = 0 };
		break;
	case REQUEST_BOOL:
	case REQUEST_NOT:
		*(bool *)at = false;
		break;
	case REQUEST_SIZE:
	case REQUEST_TIME:
		*(uint64_t *)at = 0;
		break;
	case REQUEST_COUNT:
		*(uint32_t *)at = 0;
		break;
	case REQUEST_DISPOSE:
		*(enum disposition *)at = DISPOSE_UNSAID;
		break;
	case REQUEST_ISOLATION:
		*(enum isolation *)at = ISOLATION_AUTO;
		break;
	case REQUEST_MOUNTS:
		for (size_t i = 0; i < r->n_mounts; i++) {
			free(r->mounts[i].inside);
			free(r->mounts[i].host);
		}
		free(r->mounts);
		r->mounts = NULL;
		r->n_mounts = 0;
		break;
	case REQUEST_USER:
		r->has_user = false;
		break;
	}
}

void request_clear(struct request *r, const char *key)
{
	const struct request_key *k = request_find_key(key);

	if (k)
		clear_key(r, k);
}

struct request_origin {
	const struct request_key *key;
	char *value, *where;
};

static int add_origin(struct request *r, const struct request_key *k,
		      const char *value, const char *where)
{
	struct request_origin *v =
		reallocarray(r->origins, r->n_origins + 1, sizeof(*v));
	/* Of a profile it ends in the key, which is known here. */
	const char *blank = strrchr(where, ' ');
	size_t n = blank && blank > where && blank[-1] == ':'
			   ? (size_t)(blank - where) - 1
			   : strlen(where);

	if (!v)
		return -ENOMEM;
	r->origins = v;
	v += r->n_origins++;
	*v = (struct request_origin){ k, strdup(value), strndup(where, n) };
	return v->value && v->where ? 0 : -ENOMEM;
}

const char *request_where(const struct request *r, const char *key)
{
	for (size_t i = r->n_origins; i-- > 0;)
		if (strcmp(r->origins[i].key->key, key) == 0)
			return r->origins[i].where;
	return key;
}

static void free_origins(struct request *r)
{
	for (size_t i = 0; i < r->n_origins; i++) {
		free(r->origins[i].value);
		free(r->origins[i].where);
	}
	free(r->origins);
}

const char *request_origin(const struct request *r, const char *key,
			   const char *value)
{
	for (size_t i = 0; i < r->n_origins; i++)
		if (strcmp(r->origins[i].key->key, key) == 0 &&
		    strcmp(r->origins[i].value, value) == 0)
			return r->origins[i].where;
	return NULL;
}

void request_free(struct request *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < request_n_keys; i++)
		clear_key(r, &request_keys[i]);
	spec_strings_done(&r->handled);
	free_origins(r);
	free(r->name);
	free(r);
}

static int set_string(char **at, const char *value)
{
	char *copy = strdup(value);

	if (!copy)
		return -ENOMEM;
	free(*at);
	*at = copy;
	return 0;
}

/* Digits and at most one of the suffixes; overflow is -ERANGE. */
static int parse_scaled(const char *text, const char *suffixes,
			const uint64_t *factors, uint64_t *ret)
{
	unsigned long long n;
	const char *found;
	char *end;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno)
		return -ERANGE;
	if (!*end) {
		*ret = n;
		return 0;
	}
	found = end[1] ? NULL : strchr(suffixes, *end);
	if (!found)
		return -EINVAL;
	if (__builtin_mul_overflow(n, factors[found - suffixes], ret))
		return -ERANGE;
	return 0;
}

int request_parse_size(const char *text, uint64_t *ret)
{
	static const uint64_t factors[] = {
		UINT64_C(1) << 10, UINT64_C(1) << 10, UINT64_C(1) << 20,
		UINT64_C(1) << 20, UINT64_C(1) << 30, UINT64_C(1) << 30,
		UINT64_C(1) << 40, UINT64_C(1) << 40,
	};
	int r = parse_scaled(text, "kKmMgGtT", factors, ret);

	return r == 0 && !*ret ? -EINVAL : r;
}

static int parse_time(const char *text, uint64_t *ret_ms)
{
	static const uint64_t factors[] = { 1000, 60 * 1000, 3600 * 1000 };
	size_t n = strlen(text);
	uint64_t value;
	int r;

	if (n > 2 && strcmp(text + n - 2, "ms") == 0) {
		auto_free char *digits = strndup(text, n - 2);

		r = digits ? parse_scaled(digits, "", factors, &value)
			   : -ENOMEM;
	} else {
		r = parse_scaled(text, "smh", factors, &value);
		/* A bare number is seconds, as timeout(1) has it. */
		if (r == 0 && text[n - 1] >= '0' && text[n - 1] <= '9' &&
		    __builtin_mul_overflow(value, 1000, &value))
			r = -ERANGE;
	}
	if (r == 0 && (!value || value > INT64_MAX / 2))
		r = -ERANGE;
	if (r == 0)
		*ret_ms = value;
	return r;
}

static int parse_count(const char *text, uint32_t *ret)
{
	uint64_t n;
	int r = parse_scaled(text, "", NULL, &n);

	if (r == 0 && (!n || n > INT_MAX))
		r = -ERANGE;
	if (r == 0)
		*ret = (uint32_t)n;
	return r;
}

static int parse_bool(const char *text, bool *ret)
{
	if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
		return -EINVAL;
	*ret = *text == 't';
	return 0;
}

/* "INSIDE:HOST[:ro|:rw]" */
static int add_mount(struct request *r, const char *text)
{
	const char *colon = strchr(text, ':');
	const char *host = colon ? colon + 1 : NULL;
	size_t n = host ? strlen(host) : 0;
	struct request_mount *v, m = { .read_only = false };

	if (!host || colon == text)
		return -EINVAL;
	if (n > 3 && strcmp(host + n - 3, ":ro") == 0) {
		m.read_only = true;
		n -= 3;
	} else if (n > 3 && strcmp(host + n - 3, ":rw") == 0) {
		n -= 3;
	}
	if (!n || text[0] != '/')
		return -EINVAL;
	v = realloc(r->mounts, (r->n_mounts + 1) * sizeof(*v));
	if (!v)
		return -ENOMEM;
	r->mounts = v;
	m.inside = strndup(text, (size_t)(colon - text));
	m.host = strndup(host, n);
	if (!m.inside || !m.host) {
		free(m.inside);
		free(m.host);
		return -ENOMEM;
	}
	v[r->n_mounts++] = m;
	return 0;
}

static int set_user(struct request *r, const char *text)
{
	bool has_gid = false;
	int n = spec_user_parse(text, &r->uid, &has_gid, &r->gid, NULL);

	if (n == 0 && !has_gid)
		n = -EINVAL;
	r->has_user = n == 0;
	return n;
}

/* "NAME=VALUE"; a later one takes the place of one with the same name. */
static int set_env(struct spec_strings *l, const char *text)
{
	const char *eq = strchr(text, '=');

	if (!eq || eq == text)
		return -EINVAL;
	for (size_t i = 0; i < l->n; i++)
		if (strncmp(l->v[i], text, (size_t)(eq - text + 1)) == 0)
			return set_string(&l->v[i], text);
	return spec_strings_add(l, text);
}

static int set_value(struct request *r, const struct request_key *k,
		     const char *value)
{
	void *at = (char *)r + k->offset;
	bool flag;
	int n;

	switch (k->kind) {
	case REQUEST_STRING:
		return *value ? set_string(at, value) : -EINVAL;
	case REQUEST_LIST:
		return spec_strings_add(at, value);
	case REQUEST_ENV:
		return set_env(at, value);
	case REQUEST_BOOL:
		return parse_bool(value, at);
	case REQUEST_NOT:
		n = parse_bool(value, &flag);
		if (n == 0)
			*(bool *)at = !flag;
		return n;
	case REQUEST_SIZE:
		return request_parse_size(value, at);
	case REQUEST_COUNT:
		return parse_count(value, at);
	case REQUEST_TIME:
		return parse_time(value, at);
	case REQUEST_DISPOSE:
		return disposition_parse(value, at);
	case REQUEST_ISOLATION:
		return isolation_parse(value, at);
	case REQUEST_MOUNTS:
		return add_mount(r, value);
	case REQUEST_USER:
		return set_user(r, value);
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		break;
	}
	return -EINVAL;
}

const char *request_kind_wants(enum request_kind k)
{
	switch (k) {
	case REQUEST_STRING:
	case REQUEST_LIST:
		return "text that is not empty";
	case REQUEST_ENV:
		return "NAME=VALUE";
	case REQUEST_BOOL:
	case REQUEST_NOT:
		return "true or false";
	case REQUEST_SIZE:
		return "a number of bytes, or one with K, M or G";
	case REQUEST_COUNT:
		return "a number from 1 on";
	case REQUEST_TIME:
		return "seconds, or a number with ms, s, m or h";
	case REQUEST_DISPOSE:
		return "commit, abort, keep or defer";
	case REQUEST_ISOLATION:
		return "auto, namespaces or notify";
	case REQUEST_MOUNTS:
		return "/INSIDE:HOST, with :ro or :rw behind it";
	case REQUEST_USER:
		return "UID:GID, in numbers";
	case REQUEST_NET_ALLOW:
	case REQUEST_NET_DENY:
	case REQUEST_BIND_ALLOW:
	case REQUEST_BIND_DENY:
		return "a network rule";
	}
	return "";
}

/* "net-tcp,signal-scope" */
static int set_protections(uint32_t *mask, const char *value, const char *where,
			   struct error *err)
{
	auto_(spec_strings) struct spec_strings words = { .n = 0 };

	if (spec_strings_split(&words, value) < 0)
		return error_set(err, ERR_SYSTEM, ENOMEM, "%s", where);
	for (size_t i = 0; i < words.n; i++) {
		enum protection which;

		if (protection_parse(words.v[i], &which) < 0) {
			(void)error_say(err, ERR_USAGE, EINVAL,
					"%s: '%s' is no protection", where,
					words.v[i]);
			return error_hint(err,
					  "there are fs-refer, fs-truncate, "
					  "net-tcp, fs-ioctl-dev, signal-scope "
					  "and abstract-unix-scope");
		}
		*mask |= UINT32_C(1) << which;
	}
	return 0;
}

/* True for a list of network rules; what they are for in @ret. */
static bool is_rule_kind(enum request_kind kind, enum net_rule_use *ret)
{
	switch (kind) {
	case REQUEST_NET_ALLOW:
		*ret = NET_RULE_ALLOW;
		return true;
	case REQUEST_NET_DENY:
		*ret = NET_RULE_DENY;
		return true;
	case REQUEST_BIND_ALLOW:
		*ret = NET_RULE_BIND_ALLOW;
		return true;
	case REQUEST_BIND_DENY:
		*ret = NET_RULE_BIND_DENY;
		return true;
	case REQUEST_STRING:
	case REQUEST_LIST:
	case REQUEST_ENV:
	case REQUEST_BOOL:
	case REQUEST_NOT:
	case REQUEST_SIZE:
	case REQUEST_COUNT:
	case REQUEST_TIME:
	case REQUEST_DISPOSE:
	case REQUEST_ISOLATION:
	case REQUEST_MOUNTS:
	case REQUEST_USER:
		break;
	}
	return false;
}

/* Kept as it is printed, so that equal rules are equal texts. */
static int add_rule(struct request *r, const struct request_key *k,
		    enum net_rule_use use, const char *value, const char *where,
		    struct error *err)
{
	struct spec_strings *list = (void *)((char *)r + k->offset);
	auto_(net_rule) struct net_rule rule = { .protos = 0 };
	auto_(buf) struct buf b = BUF_INIT;
	struct error local = ERROR_INIT;
	struct error *e = err ? err : &local;

	if (net_rule_parse(value, use, &rule, e) < 0)
		return error_wrap(e, "%s", where);
	net_rule_format(&rule, use, &b);
	if (buf_failed(&b) || spec_strings_add(list, buf_str(&b)) < 0 ||
	    add_origin(r, k, buf_str(&b), where) < 0)
		return error_set(e, ERR_SYSTEM, ENOMEM, "%s", where);
	return 0;
}

int request_set(struct request *r, const char *key, const char *value,
		const char *where, struct error *err)
{
	const struct request_key *k = request_find_key(key);
	enum net_rule_use use;
	int n;

	if (strcmp(key, "name") == 0)
		return set_string(&r->name, value) < 0
			       ? error_set(err, ERR_SYSTEM, ENOMEM, "%s", where)
			       : 0;
	if (strcmp(key, "dry_run") == 0) {
		r->dry_run = strcmp(value, "true") == 0;
		return 0;
	}
	if (strcmp(key, "allow_degraded") == 0)
		return set_protections(&r->allow_degraded, value, where, err);
	if (strcmp(key, "disable") == 0)
		return set_protections(&r->disabled, value, where, err);
	if (!k)
		return error_say(err, ERR_USAGE, EINVAL,
				 "%s: there is no key '%s'", where, key);
	if (is_rule_kind(k->kind, &use))
		return add_rule(r, k, use, value, where, err);
	n = set_value(r, k, value);
	if (n == 0 && k->flag &&
	    (k->kind == REQUEST_LIST || k->kind == REQUEST_SIZE))
		n = add_origin(r, k, value, where);
	if (n == -ENOMEM)
		return error_set(err, ERR_SYSTEM, ENOMEM, "%s", where);
	if (n < 0 && !*value)
		return error_say(err, ERR_USAGE, -n, "%s: nothing is given",
				 where);
	if (n < 0)
		return error_say(err, ERR_USAGE, -n, "%s: '%s' is not %s",
				 where, value, request_kind_wants(k->kind));
	return 0;
}

bool request_asks_callback(const struct request *r)
{
	return r->ask_by && strcmp(r->ask_by, "callback") == 0;
}

static int refuse_of_bundle(void *data, const char *key, const char *value)
{
	const struct request_key *k = request_find_key(key);
	const char *what = k && k->flag ? k->flag : key;

	if (!k || k->flags & REQUEST_OF_BUNDLE)
		return 0;
	(void)error_say(data, ERR_USAGE, EINVAL,
			"%s%s is for a command of the host, not for a bundle",
			k->flag ? "--" : "", what);
	return error_hint(data, "config.json says what a bundle may do");
}

static int check_of_bundle(const struct request *r, struct error *err)
{
	struct error local = ERROR_INIT;
	int n = request_each(r, refuse_of_bundle, err ? err : &local);

	if (n == 0 && (r->allow_degraded || r->disabled))
		return error_say(err, ERR_USAGE, EINVAL,
				 "a bundle has no protections to waive");
	return n == -ENOMEM ? error_set(err, ERR_SYSTEM, ENOMEM, "bundle") : n;
}

int request_check(const struct request *r, struct error *err)
{
	int n = r->bundle ? check_of_bundle(r, err) : 0;

	if (n < 0)
		return n;
	if (r->dry_run &&
	    (r->on_exit != DISPOSE_UNSAID || r->on_error != DISPOSE_UNSAID))
		return error_say(err, ERR_USAGE, EINVAL,
				 "--dry-run already says what becomes of the "
				 "branch: drop --on-exit and --on-error");
	if (r->net_allow.n && r->net_deny.n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "--net-allow and --net-deny exclude each "
				 "other: what is not allowed is denied");
	if (r->bind_allow.n && r->bind_deny.n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "--net-allow-bind and --net-deny-bind exclude "
				 "each other: what is not allowed is denied");
	for (size_t i = 0; i < r->deny.n; i++)
		if (!*r->deny.v[i])
			return error_say(err, ERR_USAGE, EINVAL,
					 "--fs-deny: an empty path");
	if (r->ask_by && strcmp(r->ask_by, "tty") != 0 &&
	    strcmp(r->ask_by, "socket") != 0 &&
	    strcmp(r->ask_by, "never") != 0 &&
	    strcmp(r->ask_by, "callback") != 0 && *r->ask_by != '/')
		return error_say(err, ERR_USAGE, EINVAL,
				 "ask: '%s' is neither tty, socket, never nor "
				 "the absolute path of a program",
				 r->ask_by);
	if (r->cwd && r->cwd[0] != '/')
		return error_say(err, ERR_USAGE, EINVAL,
				 "--cwd: '%s' is no absolute path", r->cwd);
	if (r->no_branch && r->workdirs.n)
		return error_say(err, ERR_USAGE, EINVAL,
				 "a workdir is always on a branch: drop it, or "
				 "what says that there is none");
	return 0;
}
