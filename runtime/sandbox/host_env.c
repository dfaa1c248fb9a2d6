/*
 * The environment of a host command: the caller's without what looks like a
 * secret, then what was asked for. SANDLOCK tells programs that they are
 * inside.
 */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "sandbox/host.h"

/* clang-format off */
static const char *const secret_names[] = {
	"*_TOKEN", "*_KEY", "*_SECRET", "*_PASSWORD", "*_PASSWD", "*_PASSPHRASE",
	"*_CREDENTIALS", "*_CREDENTIAL", "*_API_KEY", "*_ACCESS_KEY*",
	"AWS_*", "AZURE_*", "GOOGLE_APPLICATION_*", "GITHUB_TOKEN", "GH_TOKEN",
	"SSH_AUTH_SOCK", "SSH_AGENT_PID", "GPG_AGENT_INFO", "DBUS_*",
	"XAUTHORITY", "KUBECONFIG", "DOCKER_HOST", "VAULT_*", "NPM_TOKEN",
	"PGPASSWORD", "MYSQL_PWD", "TOKEN", "SECRET", "PASSWORD", "API_KEY",
};

/* What --clean-env keeps. */
static const char *const kept_names[] = {
	"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "LANG", "LC_*", "TZ",
};

/* Only ours to set. */
static const char *const own_names[] = {
	"SANDLOCK", "SANDLOCK_*", "LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET",
};
/* clang-format on */

static bool is_same(char a, char b)
{
	return tolower((unsigned char)a) == tolower((unsigned char)b);
}

/* Next to no name gets further: fnmatch is slow. */
static bool may_match(const char *pattern, const char *name, size_t len)
{
	char last = pattern[strlen(pattern) - 1];

	return (*pattern == '*' || is_same(*pattern, *name)) &&
	       (last == '*' || is_same(last, name[len - 1]));
}

static bool matches(const char *const *patterns, size_t n, const char *entry)
{
	const char *eq = strchr(entry, '=');
	char name[256];
	size_t len = eq ? (size_t)(eq - entry) : 0;

	if (!len || len >= sizeof(name))
		return false;
	memcpy(name, entry, len);
	name[len] = '\0';
	for (size_t i = 0; i < n; i++)
		if (may_match(patterns[i], name, len) &&
		    fnmatch(patterns[i], name, FNM_CASEFOLD) == 0)
			return true;
	return false;
}

static bool is_passed(const struct host_context *h, const char *entry)
{
	const char *eq = strchr(entry, '=');

	if (!eq || eq == entry ||
	    matches(own_names, ARRAY_LEN(own_names), entry))
		return false;
	if (h->request->clean_env)
		return matches(kept_names, ARRAY_LEN(kept_names), entry);
	return !matches(secret_names, ARRAY_LEN(secret_names), entry);
}

int host_environment(struct host_context *h, struct error *err)
{
	const struct request *r = h->request;
	auto_(buf) struct buf marker = BUF_INIT;
	int n = 0;

	for (char **e = environ; n == 0 && e && *e; e++)
		if (is_passed(h, *e))
			n = spec_strings_add(&h->env, *e);
	/* An id that is not mapped is EINVAL to chown(2), where fakeroot
	 * expects EPERM and goes on. */
	if (n == 0 && !idmap_is_empty(&h->idmap))
		n = spec_strings_add(&h->env, "FAKEROOTDONTTRYCHOWN=1");
	if (n == 0)
		n = spec_strings_add_all(&h->env, &r->env);
	buf_printf(&marker, "SANDLOCK=%s", h->name);
	if (n == 0)
		n = spec_strings_add(&h->env, buf_str(&marker));
	return n == 0 ? 0 : error_set(err, ERR_SYSTEM, -n, "environment");
}
